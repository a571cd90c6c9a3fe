"""What a plan of a slice sees, from the caches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from edgewise.api.tenancy import MANAGED, PARENT, SLICE, TENANT_UID
from edgewise.api.tenancy_slices import Slice, SliceClaim
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.slices.nodes import picked, slice_of, taint_of
from edgewise.tenancy.slices.seen import NodeSeen, PodSeen, Seen

_OVER = ("Succeeded", "Failed")
_DEEPEST = 64


def by_slice(node: Node) -> Iterable[str]:
    return {slice_of(node), taint_of(node)} - {""}


def by_claim(found: Slice) -> Iterable[tuple[str, str]]:
    ref = found.spec.claim_ref
    return () if ref is None else ((ref.namespace, ref.name),)


def by_used_slice(namespace: Namespace) -> str | None:
    return namespace.metadata.labels.get(SLICE)


def held_nodes(name: str, cache: CacheView) -> list[Node]:
    return sorted(cache[Node].by(by_slice, name), key=lambda each: each.metadata.name)


def claim_of(found: Slice, cache: CacheView) -> SliceClaim | None:
    """The claim that a slice names, if it is that one still."""
    ref = found.spec.claim_ref
    if ref is None:
        return None
    claim = cache[SliceClaim].find(ref.name, ref.namespace)
    if claim is None or claim.metadata.deleting or (ref.uid and ref.uid != claim.metadata.uid):
        return None
    wanted = claim.spec.slice_name
    return claim if wanted is None or wanted == found.metadata.name else None


def users_of(name: str, claim: SliceClaim | None, cache: CacheView) -> list[Namespace]:
    """The namespaces that use a slice: those below its claim's that are labelled so."""
    if claim is None:
        return []
    return [
        each
        for each in cache[Namespace].by(by_used_slice, name)
        if not each.metadata.deleting and _is_below(each, claim.metadata.namespace, cache)
    ]


def _is_below(namespace: Namespace, above: str, cache: CacheView) -> bool:
    found: Namespace | None = namespace
    for _ in range(_DEEPEST):
        parent = found.metadata.labels.get(PARENT) if found is not None else None
        if not parent or parent == above:
            return parent == above
        found = cache[Namespace].find(parent)
    return False


def observe(
    name: str,
    found: Slice | None,
    cache: CacheView,
    pods: Mapping[str, Iterable[Pod]],
    proven: Collection[str],
) -> Seen:
    claim = claim_of(found, cache) if found is not None else None
    users = users_of(name, claim, cache)
    own = {each.metadata.labels.get(TENANT_UID, "") for each in users}
    if claim is not None:
        home = cache[Namespace].find(claim.metadata.namespace)
        if home is not None:
            own.add(home.metadata.labels.get(TENANT_UID, ""))
    held = tuple(
        NodeSeen(
            node=node,
            pods=tuple(pods_seen(pods.get(node.metadata.name, ()), name, own, cache)),
            proven=node.metadata.name in proven,
        )
        for node in held_nodes(name, cache)
    )
    free, matching = picked(cache[Node].all(), found.spec) if found is not None else ([], 0)
    return Seen(
        name=name,
        slice=found,
        claimed=claim is not None,
        lost_claim=found is not None and claim is None and made_for_a_claim(found),
        employed=bool(users),
        held=held,
        free=tuple(free),
        matching=matching,
    )


def made_for_a_claim(found: Slice) -> bool:
    """Whether the operator made it, for a Dynamic claim: then it goes with that."""
    return found.metadata.labels.get(MANAGED) == "true"


def pods_seen(
    pods: Iterable[Pod], name: str, own: Collection[str], cache: CacheView
) -> Iterable[PodSeen]:
    for pod in pods:
        if pod.status.phase in _OVER and not pod.metadata.deleting:
            continue  # it ended by itself, and is only a record; one that is deleted has to be gone
        home = cache[Namespace].find(pod.metadata.namespace)
        tenant = home.metadata.labels.get(TENANT_UID, "") if home is not None else ""
        if not tenant:
            continue  # of no tenant: it stays
        inside = _tolerates(pod, name)
        yield PodSeen(pod=pod, foreign=tenant not in own, inside=inside)


def _tolerates(pod: Pod, name: str) -> bool:
    """Only pods that were made in a namespace of the slice tolerate it: a policy sees to that."""
    for each in pod.spec.get("tolerations") or ():
        if each.get("key") == SLICE and (
            each.get("operator") == "Exists" or each.get("value") == name
        ):
            return True
    return False
