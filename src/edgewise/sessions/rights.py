"""What sessions need to be allowed, program by program. The chart grants exactly this."""

from __future__ import annotations

from edgewise.api import clusters, exposure, sessions
from edgewise.domain import Rights
from edgewise.kube.kinds.rbac import PolicyRule

LOOK = ("get", "list", "watch")
KEEP = (*LOOK, "create", "patch", "delete")
END = ("list", "delete")
ROUTES = ("httproutes", "tcproutes", "udproutes", "listenersets")
GATEWAY_API = "gateway.networking.k8s.io"


def rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(api_groups=[group], resources=[*resources], verbs=[*verbs])


OPERATOR = Rights(
    program="operator",
    cluster=(
        rule(sessions.GROUP, ("sessions",), LOOK),
        # A template in use is held back by a finalizer.
        rule(sessions.GROUP, ("sessiontemplates",), (*LOOK, "patch")),
        rule(sessions.GROUP, ("sessions/status", "sessiontemplates/status"), ("patch",)),
        # Kubernetes asks for this before anything may hold back the deletion of its owner.
        rule(sessions.GROUP, ("sessions/finalizers", "sessiontemplates/finalizers"), ("update",)),
        rule(exposure.GROUP, ("portclaims",), KEEP),
        rule("", ("pods",), (*LOOK, "create", "delete")),
        # A container that is to be clean for the next client is told to end from inside.
        rule("", ("pods/exec",), ("get", "create")),
        # Who may have a pooled pod is decided by a Lease beside it.
        rule("coordination.k8s.io", ("leases",), KEEP),
        rule("", ("nodes",), ("list", "watch")),
        # Pods that a quota has refused are asked for again when it has room.
        rule("", ("resourcequotas",), ("list", "watch")),
        # What a template binds to its sessions, and the Services of seats.
        rule("", ("services", "configmaps"), KEEP),
        rule("apps", ("deployments", "statefulsets"), KEEP),
        rule("batch", ("jobs",), KEEP),
    ),
)
OPERATOR_WITH_GATEWAY_API = Rights(
    program="operator",
    when=("operator.gatewayApi",),
    cluster=(rule(GATEWAY_API, ROUTES, KEEP),),
)
# Whether who writes a session or a template may create what it describes.
OPERATOR_CHECKING_AUTHORS = Rights(
    program="operator",
    when=("operator.checkAuthors",),
    cluster=(rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),),
)
# The gateway looks at sessions and touches nothing.
GATEWAY = Rights(
    program="gateway",
    when=("gateway.enabled",),
    cluster=(rule(sessions.GROUP, ("sessions",), ("list", "watch")),),
)
# A template in use is held back by a finalizer, which only the operator would take off.
UNINSTALL = Rights(
    program="uninstall",
    when=("uninstall.hook",),
    cluster=(rule(sessions.GROUP, ("sessiontemplates",), ("get", "list", "patch")),),
)
UNINSTALL_EVERYTHING = Rights(
    program="uninstall",
    when=("uninstall.hook", "!crds.keep"),
    cluster=(
        rule(sessions.GROUP, ("globalsessions",), ("get", "list", "patch", "delete")),
        rule(sessions.GROUP, ("clientbindings", "locations"), END),
        rule(clusters.GROUP, ("clusters",), END),
        rule(sessions.GROUP, ("sessiontemplates",), ("delete",)),
        rule(sessions.GROUP, ("sessions",), END),
        rule(exposure.GROUP, ("portclaims",), END),
        rule("", ("pods", "services", "configmaps"), END),
        rule("apps", ("deployments", "statefulsets"), END),
        rule("batch", ("jobs",), END),
        rule("coordination.k8s.io", ("leases",), END),
        rule(GATEWAY_API, ROUTES, END),
    ),
)

RIGHTS = (
    OPERATOR,
    OPERATOR_WITH_GATEWAY_API,
    OPERATOR_CHECKING_AUTHORS,
    GATEWAY,
    UNINSTALL,
    UNINSTALL_EVERYTHING,
)
