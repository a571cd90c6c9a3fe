"""Tenants, SubNamespaces and quotas: what a schema cannot say."""

from __future__ import annotations

from edgewise.api.tenancy import GROUP, TENANT_UID
from edgewise.kube.kinds.rbac import RBAC
from edgewise.tenancy.policies.writing import CREATE, DELETE, UPDATE, Check, On, policy

# What a ResourceQuota counts without a slash in its name.
COUNTED = (
    "['cpu', 'memory', 'storage', 'ephemeral-storage', 'pods', 'services', 'secrets', "
    "'configmaps', 'persistentvolumeclaims', 'replicationcontrollers', 'resourcequotas', "
    "'services.nodeports', 'services.loadbalancers', 'requests.cpu', 'requests.memory', "
    "'requests.storage', 'requests.ephemeral-storage', 'limits.cpu', 'limits.memory', "
    "'limits.ephemeral-storage']"
)
_SHARES = "(has(object.spec.{0}) ? object.spec.{0} : {{}})"


def is_amount(value: str) -> str:
    return (
        f"(type({value}) == int ? int({value}) >= 0 : (isQuantity(string({value})) && "
        f"quantity(string({value})).compareTo(quantity('0')) >= 0))"
    )


NOT_COUNTED = (
    "names what a ResourceQuota does not count; it counts cpu, memory, pods and others, and "
    "objects as count/<resource>.<group>"
)
WRONG = "which is no quantity of 0 or more: write it like 10, 500m or 2Gi"
BAD_AMOUNT = f"variables.amounts.filter(k, !{is_amount('variables.amounts[k]')})"

# Of an object with spec.resources, and one with spec.expiresAt.
AMOUNTS = {
    "amounts": "object != null && has(object.spec.resources) ? object.spec.resources : {}",
}
EXPIRY = {
    "expires": (
        "object != null && has(object.spec.expiresAt) && (oldObject == null || "
        "!has(oldObject.spec.expiresAt) || object.spec.expiresAt != oldObject.spec.expiresAt)"
    ),
    # CEL has no clock. The API server has just stamped what it is about to store: a new
    # object with its creation, a changed one with the time of the change.
    "now": (
        "object == null ? '' : oldObject == null ? string(object.metadata.creationTimestamp) : "
        "([''] + (has(object.metadata.managedFields) ? object.metadata.managedFields : [])"
        ".filter(f, has(f.time)).map(f, string(f.time))).max()"
    ),
}


def good_amounts(unless: str) -> Check:
    return Check(
        f"{unless} || {BAD_AMOUNT}.size() == 0",
        "spec.resources: an amount is no quantity of 0 or more",
        says=f"'spec.resources.' + {BAD_AMOUNT}[0] + ': ' + "
        f"string(variables.amounts[{BAD_AMOUNT}[0]]) + ', {WRONG}'",
    )


GOOD_AMOUNTS = good_amounts("request.operation == 'DELETE'")
IN_THE_FUTURE = Check(
    "!variables.expires || variables.now == '' || "
    "timestamp(object.spec.expiresAt) > timestamp(variables.now)",
    "spec.expiresAt lies in the past",
    says="'spec.expiresAt lies in the past: it is ' + variables.now + ' now; write it "
    "like 2030-01-31T12:00:00Z'",
)

_READS = {
    "RBAC": ((RBAC, "roles"), (RBAC, "rolebindings")),
    "NetworkPolicy": (("networking.k8s.io", "networkpolicies"),),
    "LimitRange": (("", "limitranges"),),
    "Secret": (("", "secrets"),),
    "ConfigMap": (("", "configmaps"),),
    "ServiceAccount": (("", "serviceaccounts"),),
}


def _may_read(kind: str) -> Check:
    """The operator copies in its own name: its author must be able to see what it copies."""
    asked = " && ".join(
        f"authorizer.group('{group}').resource('{resource}')"
        f".namespace(object.metadata.namespace).check('list').allowed()"
        for group, resource in _READS[kind]
    )
    resources = ", ".join(resource for _, resource in _READS[kind])
    return Check(
        f"request.operation == 'DELETE' || variables.trusted || "
        f"!('{kind}' in variables.inherits) || ({asked})",
        f"spec.workspace.inherit: {kind} needs the right to list {resources} in this namespace",
    )


SUBNAMESPACES = policy(
    "subnamespaces",
    [On(("subnamespaces",), (CREATE, UPDATE, DELETE), group=GROUP)],
    [
        Check(
            "request.operation != 'CREATE' || (has(namespaceObject.metadata.labels) && "
            f"'{TENANT_UID}' in namespaceObject.metadata.labels)",
            "a SubNamespace belongs into a namespace of a tenant, and this is none",
        ),
        GOOD_AMOUNTS,
        IN_THE_FUTURE,
        *(_may_read(kind) for kind in _READS),
        Check(
            "request.operation != 'DELETE' || variables.ours || "
            "oldObject.spec.deletion == 'Cascade' || !has(oldObject.status) || "
            "!has(oldObject.status.children) || oldObject.status.children == 0",
            "it has children: delete those first, or set spec.deletion to Cascade",
        ),
    ],
    variables={
        **AMOUNTS,
        **EXPIRY,
        "inherits": (
            "object != null && has(object.spec.workspace) && has(object.spec.workspace.inherit) "
            "? object.spec.workspace.inherit : []"
        ),
    },
)

TENANTS = policy(
    "tenants",
    [On(("tenants",), (CREATE, DELETE), group=GROUP)],
    [
        # Whoever deletes it: everything of a tenant goes with it. Subtenants go by their parents.
        Check(
            "request.operation != 'DELETE' || oldObject.spec.enabled == false || "
            "(has(oldObject.spec.parent) && variables.trusted)",
            "spec.enabled: disable a tenant before you delete it, because all it has goes with it",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.parent) || variables.trusted",
            "spec.parent is set by the operator: make a subtenant by a SubNamespace",
        ),
    ],
)


def _amounts_of(share: str) -> tuple[Check, ...]:
    shares = _SHARES.format(share)
    each = f"{shares}[s].resources"
    names = f"{each}.all(k, k.contains('/') || k in {COUNTED})"
    good = f"{each}.all(k, {is_amount(f'{each}[k]')})"
    return (
        Check(
            f"{shares}.all(s, {good})",
            f"spec.{share}: resources has an amount, {WRONG}",
            says=f"'spec.{share}.' + {shares}.filter(s, !{good})[0] + '.resources has an "
            f"amount, {WRONG}'",
        ),
        Check(
            f"{shares}.all(s, {names})",
            f"spec.{share}: resources {NOT_COUNTED}",
        ),
    )


QUOTAS = policy(
    "quotas",
    [On(("tenantresourcequotas",), (CREATE, UPDATE), group=GROUP)],
    [
        *_amounts_of("claims"),
        *_amounts_of("drops"),
        Check(
            f"{_SHARES.format('claims')}.exists(s, "
            f"{_SHARES.format('claims')}[s].resources.size() > 0)",
            "spec.claims: name at least one resource; a tenant without a TenantResourceQuota has "
            "no limit",
        ),
    ],
)
