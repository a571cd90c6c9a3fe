"""Which nodes a slice may take, and what they have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from edgewise.api.tenancy import SLICE
from edgewise.api.tenancy_slices import SLICE_ENDS, NodeRequirement, NodesWanted, NodeTerm
from edgewise.kube.kinds.core import Node
from edgewise.tenancy.quota.quantities import Amounts, NotAQuantity, amounts, parse

# Where the control plane runs, a tenant never does.
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
# What a node has of these is what a quota of the same name, of requests or limits, can cover.
COVERED = ("cpu", "memory", "ephemeral-storage", "pods")


def slice_of(node: Node) -> str:
    """The slice that has reserved it; empty: it is shared."""
    return node.metadata.labels.get(SLICE, "")


def taint_of(node: Node) -> str:
    """The slice whose pods alone may come."""
    return next((each.value for each in node.spec.taints if each.key == SLICE), "")


def is_ending(node: Node) -> bool:
    return any(each.key == SLICE_ENDS for each in node.spec.taints)


def is_shared(node: Node) -> bool:
    return not slice_of(node) and not taint_of(node) and not is_ending(node)


def facts(node: Node) -> object:
    """All that decides whether somebody may take it: nodes report every few seconds, and mostly
    nothing of this has changed."""
    meta = node.metadata
    return meta.deleting, _works(node), dict(meta.labels), node.spec, dict(node.status.allocatable)


def fits(node: Node, wanted: NodesWanted) -> bool:
    """Whether it is such a node, in a slice or not."""
    if node.metadata.deleting or not _works(node):
        return False
    if wanted.selector and not any(_described(node, term) for term in wanted.selector):
        return False
    try:
        least = amounts(wanted.resources)
    except NotAQuantity:
        return False
    held = allocatable(node)
    return all(held.get(name, 0) >= amount for name, amount in least.items())


def _works(node: Node) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    kept = any(each.key in _CONTROL_PLANE for each in node.spec.taints)
    return ready and not node.spec.unschedulable and not kept


def _described(node: Node, term: NodeTerm) -> bool:
    labels = node.metadata.labels
    return all(labels.get(name) == value for name, value in term.match_labels.items()) and all(
        _meets(labels, each) for each in term.match_expressions
    )


def _meets(labels: Mapping[str, str], asked: NodeRequirement) -> bool:
    value = labels.get(asked.key)
    match asked.operator:
        case "In":
            return value is not None and value in asked.values
        case "NotIn":
            return value is None or value not in asked.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    number, limit = _whole(value), _whole(asked.values[0] if len(asked.values) == 1 else None)
    if number is None or limit is None:
        return False
    return number > limit if asked.operator == "Gt" else number < limit


def _whole(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.removeprefix("-").isdecimal():
        return None
    return int(text)


def allocatable(node: Node) -> dict[str, int]:
    found = {}
    for name in COVERED:
        written = node.status.allocatable.get(name)
        if written is not None:
            try:
                found[name] = parse(written)
            except NotAQuantity:
                continue  # a device plugin may write anything; it is no reason to fail
    return found


def together(nodes: Iterable[Node]) -> dict[str, int]:
    """What several nodes have."""
    found: dict[str, int] = {}
    for node in nodes:
        for name, amount in allocatable(node).items():
            found[name] = found.get(name, 0) + amount
    return found


def as_quota(held: Amounts, names: Iterable[str]) -> dict[str, int]:
    """What nodes have, in the names of a quota: cpu is requests.cpu and limits.cpu, too."""
    found = {}
    for name in names:
        base = name.removeprefix("requests.").removeprefix("limits.")
        if base in held and base in COVERED:
            found[name] = held[base]
    return found


def in_order(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda each: each.metadata.name)


def shortage(wanted: NodesWanted, matching: int, free: int) -> str:
    """Of nodes, in a sentence."""
    return (
        f"spec.nodeCount: {wanted.node_count} wanted; {matching} "
        f"{'node matches' if matching == 1 else 'nodes match'} spec.selector and spec.resources, "
        f"and {free} of them {'is' if free == 1 else 'are'} in no slice"
    )


def picked(nodes: Sequence[Node], wanted: NodesWanted) -> tuple[list[Node], int]:
    """The nodes that it would take now, in the order of their names, and how many match at all."""
    matching = [each for each in in_order(nodes) if fits(each, wanted)]
    free = [each for each in matching if is_shared(each)]
    return free, len(matching)
