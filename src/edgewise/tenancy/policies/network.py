"""NetworkPolicies add up, so that every one of a tenant's is confined: its peers are namespaces of
the same tenant, or lie outside of the cluster."""

from __future__ import annotations

from edgewise.api.tenancy import NETWORK, OPEN, TENANT_UID
from edgewise.tenancy.policies.writing import CREATE, OF_TENANTS, UPDATE, Check, On, policy

_UID = f"namespaceObject.metadata.labels['{TENANT_UID}']"
_RANGES = "variables.ranges.split(',')"
# A block may hold a range only if its exceptions take the whole range out again.
_OUTSIDE = (
    f"{_RANGES}.all(r, !cidr(r).containsCIDR(p.ipBlock.cidr) && "
    "(!cidr(p.ipBlock.cidr).containsCIDR(r) || (has(p.ipBlock.except) && "
    "p.ipBlock.except.exists(e, cidr(e).containsCIDR(r)))))"
)
_SAME_TENANT = (
    "has(p.namespaceSelector.matchLabels) && "
    f"'{TENANT_UID}' in p.namespaceSelector.matchLabels && "
    f"p.namespaceSelector.matchLabels['{TENANT_UID}'] == {_UID}"
)
_CONFINED = f"(has(p.ipBlock) ? {_OUTSIDE} : (!has(p.namespaceSelector) || ({_SAME_TENANT})))"


def _sides(field: str, peers: str) -> tuple[Check, ...]:
    rules = f"(has(object.spec.{field}) ? object.spec.{field} : [])"
    named = f"has(r.{peers}) && r.{peers}.size() > 0"
    return (
        Check(
            f"variables.free || {rules}.all(r, {named})",
            f"spec.{field}: a rule without `{peers}` is for everybody; name namespaces with the "
            f"label {TENANT_UID} of this tenant, or addresses outside of the cluster",
        ),
        Check(
            f"variables.free || {rules}.all(r, !({named}) || r.{peers}.all(p, {_CONFINED}))",
            f"spec.{field}.{peers}: a peer is a namespaceSelector with matchLabels "
            f"{TENANT_UID} of this tenant, or an ipBlock without the ranges of this cluster",
        ),
    )


NETWORK_POLICIES = policy(
    "network",
    [On(("networkpolicies",), (CREATE, UPDATE), group="networking.k8s.io")],
    [*_sides("ingress", "from"), *_sides("egress", "to")],
    namespaces=OF_TENANTS,
    variables={
        "free": (
            f"variables.trusted || ('{NETWORK}' in namespaceObject.metadata.labels && "
            f"namespaceObject.metadata.labels['{NETWORK}'] == '{OPEN}')"
        ),
    },
)
