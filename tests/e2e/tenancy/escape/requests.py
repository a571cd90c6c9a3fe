"""What people of a tenant try, who refuses it, and what they may do instead."""

from __future__ import annotations

from typing import Any

from edgewise.api.tenancy import CLUSTER_UID, GROUP, PARENT, SLICE, TENANT_UID
from tests.e2e.tenancy.escape.sending import (
    COLLABORATOR,
    ESCALATES,
    EVERYBODY,
    KEEPERS,
    NS,
    OUTSIDER,
    OWNER,
    RBAC_SAYS,
    SERVICE,
    STAFF,
    VIEWER,
    WORKERS,
    Attempt,
    Request,
    delete,
    each_by,
    get,
    patch,
    policy,
    post,
)
from tests.e2e.tenancy.escape.workloads import (
    PODS,
    network_attempts,
    pod,
    pod_attempts,
    runtime_class_attempts,
)
from tests.e2e.tenancy.scene import SHOP, TEAM

# Namespaces -------------------------------------------------------------------------------

_LABEL = {"metadata": {"labels": {TENANT_UID: "another"}}}
_OWN = get(f"{NS}/acme", OWNER)
_ADMIN_NOTE = patch(f"{NS}/acme", {"metadata": {"annotations": {"note": "x"}}}, STAFF)


def _namespace(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _namespaces() -> list[Attempt]:
    n = policy("namespaces")
    tried = (
        ("create a namespace of a tenant", post(NS, _namespace("mine", {TENANT_UID: "x"}))),
        ("change the tenant of a namespace", patch(f"{NS}/acme", _LABEL)),
        (
            "strip the tenant from a namespace",
            patch(f"{NS}/acme", {"metadata": {"labels": {TENANT_UID: None}}}),
        ),
        (
            "forge the cluster of a namespace",
            patch(f"{NS}/acme", {"metadata": {"labels": {CLUSTER_UID: "another"}}}),
        ),
        (
            "move a child below another parent",
            patch(f"{NS}/{SHOP}", {"metadata": {"labels": {PARENT: "other"}}}),
        ),
        (
            "switch pod security off",
            patch(
                f"{NS}/acme",
                {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
            ),
        ),
        (
            "call a namespace one of a slice, where the runtime class is free",
            patch(f"{NS}/acme", {"metadata": {"labels": {SLICE: "mine"}}}),
        ),
        ("change labels by the status", patch(f"{NS}/acme/status", _LABEL)),
        ("delete the core namespace", delete(f"{NS}/acme")),
    )
    found = []
    for name, request in tried:
        who = {**each_by(EVERYBODY, RBAC_SAYS), STAFF: n}
        found.append(Attempt(name=name, request=request, who=who, twin=_ADMIN_NOTE))
    found += [
        Attempt(
            name="finalize a namespace",
            request=Request(
                method="PUT",
                path=f"{NS}/acme/finalize",
                body={**_namespace("acme"), "spec": {"finalizers": []}},
            ),
            who={**each_by(EVERYBODY, RBAC_SAYS), STAFF: n},
            twin=_OWN,
        ),
        Attempt(
            name="squat the name of a child",
            request=post(NS, _namespace("team-0000000000")),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=post(NS, _namespace("a-plain-one"), STAFF),
        ),
        Attempt(
            name="become the tenant of a system namespace",
            request=post(
                f"/apis/{GROUP}/v1alpha1/tenants",
                {
                    "apiVersion": f"{GROUP}/v1alpha1",
                    "kind": "Tenant",
                    "metadata": {"name": "kube-system"},
                    "spec": {"owners": [{"kind": "User", "name": "alice"}]},
                },
            ),
            who={**each_by(EVERYBODY, RBAC_SAYS), "": "reserved"},
            twin=_OWN,
        ),
    ]
    return found


# Quota ------------------------------------------------------------------------------------

QUOTA = f"{NS}/acme/resourcequotas"
LIMITS = f"{NS}/acme/limitranges"


_CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tried"}}


def _quota() -> list[Attempt]:
    more = {"spec": {"hard": {"pods": "1000"}}}
    look = get(f"{QUOTA}/tenancy", OWNER)
    note = {"metadata": {"annotations": {f"{GROUP}/ledger": "{}"}}}
    own_limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "own"},
        "spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]},
    }
    return [
        Attempt(
            name="raise one's quota",
            request=patch(f"{QUOTA}/tenancy", more),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=look,
        ),
        Attempt(
            name="raise one's quota by its status",
            request=patch(f"{QUOTA}/tenancy/status", {"status": {"hard": {"pods": "1000"}}}),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=look,
        ),
        Attempt(
            name="rewrite the ledger",
            request=patch(f"{QUOTA}/tenancy", note),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=look,
        ),
        Attempt(
            name="delete one's quota",
            request=delete(f"{QUOTA}/tenancy"),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=look,
        ),
        Attempt(
            name="delete the default limits",
            request=delete(f"{LIMITS}/tenancy"),
            who={
                **each_by(KEEPERS, policy("managed")),
                **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS),
            },
            twin=post(LIMITS, own_limits, OWNER),
        ),
        Attempt(
            name="take more than is left",
            request=post(PODS, pod(containers={"resources": {"requests": {"cpu": "50"}}})),
            who=each_by(WORKERS, "exceeded quota"),
            twin=post(PODS, pod(), OWNER),
        ),
        Attempt(
            name="a flood of ConfigMaps",
            request=post(f"{NS}/acme/configmaps", _CONFIG_MAP),
            who={**each_by(WORKERS, "exceeded quota"), OUTSIDER: RBAC_SAYS},
            twin=post(f"{NS}/{SHOP}/configmaps", _CONFIG_MAP, "sam"),
        ),
        Attempt(
            name="give one's tenant more",
            request=patch(
                f"/apis/{GROUP}/v1alpha1/tenantresourcequotas/acme",
                {"spec": {"claims": {"gift": {"resources": {"pods": 99}}}}},
            ),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=look,
        ),
    ]


# Rights -----------------------------------------------------------------------------------

RBAC_API = "/apis/rbac.authorization.k8s.io/v1"
BINDINGS = f"{RBAC_API}/namespaces/acme/rolebindings"
ROLES = f"{RBAC_API}/namespaces/acme/roles"
SUBNS = f"/apis/{GROUP}/v1alpha1/namespaces/acme/subnamespaces"


def _binding(role: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tried"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "mallory"}],
    }


def _role(resource: str, *verbs: str, group: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "tried"},
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": [*verbs]}],
    }


def subnamespace(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "SubNamespace",
        "metadata": {"name": name},
        "spec": spec,
    }


def _rights() -> list[Attempt]:
    plain = post(BINDINGS, _binding("edgewise:tenant-viewer"), OWNER)
    small = post(ROLES, _role("pods", "get"), OWNER)
    add = {
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]
    }
    team = f"{RBAC_API}/namespaces/{TEAM}/rolebindings"
    copied = f"{team}/edgewise-tenant-collaborator-cora"
    workspace = {"inherit": ["Secret"], "owner": {"kind": "User", "name": "mia"}}
    harmless = {"inherit": ["RBAC"]}
    return [
        Attempt(
            name="bind cluster-admin",
            request=post(BINDINGS, _binding("cluster-admin")),
            who={**each_by(KEEPERS, ESCALATES), **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=plain,
        ),
        Attempt(
            name="make a role that is wider than oneself",
            request=post(ROLES, _role("endpointslices", "create", group="discovery.k8s.io")),
            who={**each_by(KEEPERS, ESCALATES), **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=small,
        ),
        Attempt(
            name="make a role with every verb",
            request=post(ROLES, _role("roles", "*", group="rbac.authorization.k8s.io")),
            who=each_by(KEEPERS, ESCALATES),
            twin=small,
        ),
        Attempt(
            name="make a role to act as others",
            request=post(ROLES, _role("serviceaccounts", "impersonate")),
            who={**each_by(KEEPERS, ESCALATES), **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=small,
        ),
        Attempt(
            name="let somebody in by the managed binding",
            request=patch(f"{BINDINGS}/tenancy", add),
            who={
                OWNER: policy("managed"),
                SERVICE: ESCALATES,
                **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS),
            },
            twin=plain,
        ),
        Attempt(
            name="lock the operator out",
            request=delete(f"{BINDINGS}/tenancy"),
            who=each_by(KEEPERS, policy("managed")),
            twin=plain,
        ),
        Attempt(
            name="edit an inherited binding",
            request=patch(copied, add),
            who={OWNER: policy("managed"), **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=post(team, _binding("edgewise:tenant-viewer"), OWNER),
        ),
        Attempt(
            name="inherit Secrets that one cannot read",
            request=post(SUBNS, subnamespace("loot", workspace=workspace)),
            who={"mia": policy("subnamespaces"), **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=post(SUBNS, subnamespace("fine", workspace=workspace), OWNER),
        ),
        Attempt(
            name="make oneself owner of a subtenant",
            request=patch(f"{SUBNS}/shop", {"spec": {"subtenant": {"owner": {"name": "alice"}}}}),
            who={OWNER: "immutable", **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=patch(f"{SUBNS}/shop", {"spec": {"labels": {"a": "b"}}}, OWNER),
        ),
        Attempt(
            name="turn a subtenant into a workspace",
            request=patch(f"{SUBNS}/shop", {"spec": {"subtenant": None, "workspace": harmless}}),
            who={OWNER: "immutable"},
            twin=patch(f"{SUBNS}/shop", {"spec": {"labels": {"a": "b"}}}, OWNER),
        ),
        Attempt(
            name="write what one may only look at",
            request=post(f"{NS}/acme/configmaps", _CONFIG_MAP),
            who=each_by((VIEWER, OUTSIDER), RBAC_SAYS),
            twin=get(f"{NS}/acme/configmaps", VIEWER),
        ),
        Attempt(
            name="read Secrets as somebody who may look",
            request=get(f"{NS}/acme/secrets", ""),
            who=each_by((VIEWER, OUTSIDER), RBAC_SAYS),
            twin=get(f"{NS}/acme/secrets", COLLABORATOR),
        ),
        Attempt(
            name="bind roles as somebody who only works there",
            request=post(BINDINGS, _binding("edgewise:tenant-viewer")),
            who=each_by((VIEWER, COLLABORATOR, OUTSIDER), RBAC_SAYS),
            twin=post(BINDINGS, _binding("edgewise:tenant-viewer"), SERVICE),
        ),
        Attempt(
            name="make a namespace below without being an owner",
            request=post(SUBNS, subnamespace("mine", workspace=harmless)),
            who=each_by((VIEWER, COLLABORATOR, SERVICE, OUTSIDER), RBAC_SAYS),
            twin=post(SUBNS, subnamespace("mine", workspace=harmless), OWNER),
        ),
        Attempt(
            name="make a role for the whole cluster",
            request=post(
                f"{RBAC_API}/clusterroles", {**_role("pods", "get"), "kind": "ClusterRole"}
            ),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=small,
        ),
        Attempt(
            name="make a volume of the cluster",
            request=post(
                "/api/v1/persistentvolumes",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": "host"},
                    "spec": {
                        "capacity": {"storage": "1Gi"},
                        "accessModes": ["ReadWriteOnce"],
                        "hostPath": {"path": "/"},
                    },
                },
            ),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=small,
        ),
    ]


# The tree ---------------------------------------------------------------------------------


PAST, FUTURE = "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


def _tree() -> list[Attempt]:
    inside = "/api/v1/namespaces/" + SHOP
    tenants = f"/apis/{GROUP}/v1alpha1/tenants/acme"
    own = get(f"{inside}/secrets", "sam")
    parent = (OWNER, COLLABORATOR, SERVICE)
    inheriting = {"inherit": ["RBAC"]}
    found = [
        Attempt(
            name=f"read {what} of a subtenant, as its parent",
            request=get(path, ""),
            who=each_by((*parent, OUTSIDER), RBAC_SAYS),
            twin=own,
        )
        for what, path in (
            ("Secrets", f"{inside}/secrets"),
            ("bindings", f"{RBAC_API}/namespaces/{SHOP}/rolebindings"),
            ("logs", f"{inside}/pods/any/log"),
            ("subnamespaces", f"/apis/{GROUP}/v1alpha1/namespaces/{SHOP}/subnamespaces"),
            ("requests", f"/apis/{GROUP}/v1alpha1/namespaces/{SHOP}/rolerequests"),
        )
    ]
    return [
        *found,
        Attempt(
            name="live longer than one's parent said",
            request=patch(f"{SUBNS}/shop", {"spec": {"expiresAt": "2099-01-01T00:00:00Z"}}),
            who=each_by(("sam", COLLABORATOR, OUTSIDER), RBAC_SAYS),
            twin=patch(f"{SUBNS}/shop", {"spec": {"expiresAt": "2099-01-01T00:00:00Z"}}, OWNER),
        ),
        Attempt(
            name="make a namespace that is over before it begins",
            request=post(SUBNS, subnamespace("late", workspace=inheriting, expiresAt=PAST)),
            who={OWNER: "lies in the past: it is 20"},
            twin=post(SUBNS, subnamespace("late", workspace=inheriting, expiresAt=FUTURE), OWNER),
        ),
        Attempt(
            name="end a namespace by a slip of the pen",
            request=patch(f"{SUBNS}/shop", {"spec": {"expiresAt": PAST}}),
            who={OWNER: "lies in the past: it is 20"},
            twin=patch(f"{SUBNS}/shop", {"spec": {"expiresAt": FUTURE}}, OWNER),
        ),
        Attempt(
            name="change one's own Tenant",
            request=patch(tenants, {"spec": {"maxDepth": 30}}),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=patch(tenants, {"spec": {"maxDepth": 7}}),
        ),
        Attempt(
            name="see what is said of one's own Tenant",
            request=get(tenants, ""),
            who=each_by((*EVERYBODY, "sam"), RBAC_SAYS),
            twin=_OWN,
        ),
        Attempt(
            name="read another tenant",
            request=get("/api/v1/namespaces/other/secrets", ""),
            who=each_by((OWNER, COLLABORATOR, SERVICE, "sam"), RBAC_SAYS),
            twin=get("/api/v1/namespaces/other/secrets", OUTSIDER),
        ),
        Attempt(
            name="delete a parent of namespaces by mistake",
            request=delete(f"{SUBNS}/team"),
            who={OWNER: policy("subnamespaces"), **each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)},
            twin=delete(f"{SUBNS}/shop", OWNER),
        ),
        Attempt(
            name="delete a tenant that is at work",
            request=delete(tenants),
            who={"": policy("tenants"), **each_by(EVERYBODY, RBAC_SAYS)},
            twin=patch(tenants, {"spec": {"enabled": False}}),
        ),
        Attempt(
            name="make a tenant below another one by hand",
            request=post(
                f"/apis/{GROUP}/v1alpha1/tenants",
                {
                    "apiVersion": f"{GROUP}/v1alpha1",
                    "kind": "Tenant",
                    "metadata": {"name": "stolen"},
                    "spec": {
                        "owners": [{"kind": "User", "name": "alice"}],
                        "parent": {"namespace": "acme", "name": "shop", "uid": "x"},
                    },
                },
            ),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=_OWN,
        ),
        Attempt(
            name="ask for a namespace outside of a tenant",
            request=post(
                f"/apis/{GROUP}/v1alpha1/namespaces/default/subnamespaces",
                subnamespace("x", workspace={"inherit": ["RBAC"]}),
            ),
            who={"": policy("subnamespaces"), **each_by(EVERYBODY, RBAC_SAYS)},
            twin=post(SUBNS, subnamespace("x", workspace={"inherit": ["RBAC"]}), OWNER),
        ),
    ]


ATTEMPTS = [
    *_namespaces(),
    *_quota(),
    *_rights(),
    *pod_attempts(),
    *runtime_class_attempts(),
    *network_attempts(),
    *_tree(),
]
