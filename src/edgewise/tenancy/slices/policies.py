"""What the API server itself holds slices to, with or without an operator."""

from __future__ import annotations

from edgewise.api.tenancy import GROUP, SLICE, TENANT_UID
from edgewise.api.tenancy_slices import EMPTY_BY, GRACE, SLICE_ENDS
from edgewise.kube.objects import Object
from edgewise.tenancy.policies.own_kinds import AMOUNTS, EXPIRY, GOOD_AMOUNTS, IN_THE_FUTURE
from edgewise.tenancy.policies.workloads import IN_SLICE
from edgewise.tenancy.policies.writing import CREATE, UPDATE, Check, On, policy
from edgewise.tenancy.slices.pinning import IN_SLICES

SLICES = policy(
    "slices",
    [On(("slices", "sliceclaims"), (CREATE, UPDATE), group=GROUP)],
    [
        Check(
            "request.operation != 'CREATE' || request.resource.resource != 'sliceclaims' || "
            f"(has(namespaceObject.metadata.labels) && '{TENANT_UID}' in "
            "namespaceObject.metadata.labels)",
            "a SliceClaim belongs into a namespace of a tenant, and this is none",
        ),
        GOOD_AMOUNTS,
        IN_THE_FUTURE,
    ],
    variables={**AMOUNTS, **EXPIRY},
)

_MARKS = f"['{SLICE}', '{EMPTY_BY}', '{GRACE}']"
_IS_OURS = f"k in {_MARKS}"
_TAINT_IS_OURS = f"t.key in ['{SLICE}', '{SLICE_ENDS}']"


def _before_and_after(name: str, path: str, nothing: str) -> dict[str, str]:
    return {
        f"{name}{when}": f"{which} != null && has({which}.{path}) ? {which}.{path} : {nothing}"
        for when, which in (("After", "object"), ("Before", "oldObject"))
    }


def _unchanged(which: str, taints: str) -> str:
    """Whether labels, annotations and taints of which this is true are as they were."""
    said = []
    for name in ("labels", "notes"):
        after, before = f"variables.{name}After", f"variables.{name}Before"
        said += [
            f"{after}.all(k, !({which}) || (k in {before} && {before}[k] == {after}[k]))",
            f"{before}.all(k, !({which}) || k in {after})",
        ]
    said.append(
        f"variables.taintsAfter.filter(t, {taints}) == variables.taintsBefore.filter(t, {taints})"
    )
    return " && ".join(said)


# Whoever sets a node apart decides which tenant's pods run on it: not the node itself. And the
# operator, whose right to write nodes is wide, writes nothing else there.
NODES: tuple[Object, ...] = policy(
    "nodes",
    [On(("nodes", "nodes/status"), (CREATE, UPDATE))],
    [
        Check(
            f"variables.trusted || ({_unchanged(_IS_OURS, _TAINT_IS_OURS)})",
            "which slice a node is in is the operator's to say: make a Slice",
        ),
        Check(
            "!variables.operator || request.operation != 'UPDATE' || "
            f"({_unchanged(f'!({_IS_OURS})', f'!({_TAINT_IS_OURS})')})",
            "of a node the operator writes only which slice it is in",
        ),
    ],
    without_parameters="Allow",
    variables={
        **_before_and_after("labels", "metadata.labels", "{}"),
        **_before_and_after("notes", "metadata.annotations", "{}"),
        **_before_and_after("taints", "spec.taints", "[]"),
    },
)

# The API server or a webhook puts them there. Where neither does, no such pod starts.
SLICED_PODS: tuple[Object, ...] = policy(
    "sliced-pods",
    [On(("pods",), (CREATE,))],
    [
        Check(
            f"has(object.spec.nodeSelector) && '{SLICE}' in object.spec.nodeSelector && "
            f"object.spec.nodeSelector['{SLICE}'] == variables.slice",
            "spec.nodeSelector: pods of this namespace run on the nodes of its slice alone, and "
            "nothing has added them; is an operator there?",
        ),
        Check(
            f"has(object.spec.tolerations) && object.spec.tolerations.exists(t, has(t.key) && "
            f"t.key == '{SLICE}' && has(t.value) && t.value == variables.slice)",
            "spec.tolerations: pods of this namespace tolerate the taint of its slice, and "
            "nothing has added that; is an operator there?",
        ),
    ],
    namespaces=IN_SLICES,
    variables=IN_SLICE,
)
