"""What people of a tenant may do in its namespaces: four ClusterRoles, bound in each namespace.

None has the verb `*`, which on roles would contain `escalate` and `bind`. None reaches past the
tenant's pods: no EndpointSlices, no Ingresses, nothing that the API server proxies.
"""

from __future__ import annotations

from edgewise.api.tenancy import ADMIN_ROLE, COLLABORATOR_ROLE, GROUP, OWNER_ROLE, VIEWER_ROLE
from edgewise.kube.kinds.rbac import RBAC, ClusterRole, PolicyRule
from edgewise.tenancy.requests.roles import DECIDE_HERE

LOOK = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
ALL = (*LOOK, *WRITE)


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(api_groups=[group], resources=[*resources], verbs=[*verbs])


_WORK = (
    ("", ("pods", "services", "configmaps", "persistentvolumeclaims")),
    ("apps", ("deployments", "replicasets", "statefulsets")),
    ("batch", ("jobs", "cronjobs")),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("policy", ("poddisruptionbudgets",)),
    ("sessions.edgewise.dev", ("sessions", "sessiontemplates")),
    ("games.edgewise.dev", ("servers", "fleets", "gametypes", "gameautoscalers")),
)
_VIEWER = (
    *(_rule(group, resources, LOOK) for group, resources in _WORK),
    _rule("", ("pods/log", "pods/status"), ("get",)),
    _rule("", ("events", "limitranges", "resourcequotas", "serviceaccounts"), LOOK),
    _rule("", ("namespaces",), ("get",)),
    _rule("events.k8s.io", ("events",), LOOK),
    _rule("networking.k8s.io", ("networkpolicies",), LOOK),
    _rule(GROUP, ("subnamespaces", "sliceclaims"), LOOK),
)
_COLLABORATOR = (
    *_VIEWER,
    *(_rule(group, resources, WRITE) for group, resources in _WORK),
    _rule("", ("secrets",), ALL),
    _rule("", ("pods/exec", "pods/attach", "pods/portforward"), ("get", "create")),
    _rule("", ("pods/eviction",), ("create",)),
    _rule("", ("pods/ephemeralcontainers",), ("get", "update", "patch")),
    _rule("apps", ("deployments/scale", "statefulsets/scale"), ("get", "update", "patch")),
)
_ADMIN = (
    *_COLLABORATOR,
    _rule("", ("serviceaccounts", "limitranges"), WRITE),
    _rule("", ("serviceaccounts/token",), ("create",)),
    _rule("networking.k8s.io", ("networkpolicies",), WRITE),
    _rule(RBAC, ("roles", "rolebindings"), ALL),
    DECIDE_HERE,
)
_OWNER = (*_ADMIN, _rule(GROUP, ("subnamespaces", "sliceclaims"), WRITE))

ROLES = tuple(
    ClusterRole.named(name, rules=[*rules])
    for name, rules in (
        (OWNER_ROLE, _OWNER),
        (ADMIN_ROLE, _ADMIN),
        (COLLABORATOR_ROLE, _COLLABORATOR),
        (VIEWER_ROLE, _VIEWER),
    )
)
