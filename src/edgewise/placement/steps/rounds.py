"""A round: sentinels on nodes that were not looked at yet, and what becomes of each of them."""

from __future__ import annotations

import math

from edgewise.api.placement import Sentinel, Why
from edgewise.placement.draft import Draft
from edgewise.placement.observed import PodHere, Role
from edgewise.placement.steps import probing, searching
from edgewise.placement.steps.starting import start
from edgewise.workloads.deadlines import moment, stamp
from edgewise.workloads.names import short_hash

# kube-scheduler has said so long that there is no place.
UNSCHEDULABLE_SECONDS = 2.0
# A pod that has a node must be ready by then.
START_SECONDS = 60.0


def next_round(draft: Draft) -> None:
    """Start the next sentinels, or end the search."""
    if not draft.all_ready:
        draft.waits_for = "all replicas to be ready"
        return
    if draft.seen.spec.mode != "Probe":
        draft.status.unconfirmed = []  # of a move from before the mode was changed
    if searching.keeps_sla(draft) and not draft.status.unconfirmed:
        searching.finish(draft)
        return
    if not searching.hears(draft):
        draft.waits_for = "reports"
        return
    room = overload_room(draft)
    if room == 0:
        draft.waits_for = "pods to end: maxOverloadPercent counts them"
        draft.at(draft.now + 1)
        return
    most = min(draft.seen.spec.sentinels, room)
    if draft.seen.spec.mode == "Probe":
        probing.next_probed_round(draft, most)
        return
    # Whoever takes its replicas away could otherwise have a node looked at for ever.
    draft.visit(sorted(set(draft.status.search.won) - draft.held()), Why.LOST)
    nodes = unvisited(draft)
    if nodes:
        parts = [nodes[number::most] for number in range(min(most, len(nodes)))]
        start(draft, [Sentinel(name="", nodes=part) for part in parts])
    elif (moves := probing.gains(draft, most)) and probing.moves_left(draft):
        start(draft, moves)
    else:
        searching.finish(draft)


def unvisited(draft: Draft) -> list[str]:
    """In an order that is another one in each search, and the same for every operator."""
    off = draft.visited() | draft.held()
    nodes = [node.name for node in draft.seen.nodes if node.usable and node.name not in off]
    number = str(draft.status.search.number)
    return sorted(nodes, key=lambda node: short_hash(number, node, length=8))


def overload_room(draft: Draft) -> int:
    """How many more pods there may be; those that end count, too."""
    limit = draft.seen.spec.max_overload_percent
    if not limit:
        return draft.seen.spec.sentinels
    return max(0, math.floor(draft.wanted * limit / 100) - len(draft.seen.pods))


def settle(draft: Draft) -> None:
    """Take the sentinels out of the round of which nothing more is to be expected."""
    kept = []
    for each in draft.status.sentinels:
        pod = next((pod for pod in draft.seen.pods if pod.name == each.name), None)
        if _goes_on(draft, each, pod):
            kept.append(each)
    if len(kept) < len(draft.status.sentinels) and not kept:
        draft.remember_sentinels()
    draft.status.sentinels = kept


def _goes_on(draft: Draft, sentinel: Sentinel, pod: PodHere | None) -> bool:
    if (refusal := draft.seen.refused.get(sentinel.name)) is not None and pod is None:
        if not refusal.taken:
            draft.visit(sentinel.nodes, Why.NO_QUOTA if refusal.quota else Why.REFUSED)
        draft.told.append(("SentinelRefused", refusal.words))
        return False
    if pod is None and not sentinel.node:
        draft.orders.create.append(sentinel)
        return True
    if pod is None or not pod.live or pod.role is not Role.SENTINEL:
        node = sentinel.node or (pod.node if pod else "")
        draft.visit([node] if node else [], Why.LOST)
        return False
    return _on_its_node(draft, sentinel, pod) if pod.node else _is_placed(draft, sentinel, pod)


def _on_its_node(draft: Draft, sentinel: Sentinel, pod: PodHere) -> bool:
    sentinel.node = pod.node
    node_here = draft.node(pod.node)
    if node_here is None or not node_here.usable:
        cordoned = node_here is not None and node_here.ready
        draft.visit([pod.node], Why.CORDONED if cordoned else Why.NOT_READY)
        return False
    if pod.ready:
        sentinel.ready_at = sentinel.ready_at or stamp(pod.ready_seen or pod.ready_since)
        return True
    return _starts(draft, sentinel, pod)


def _is_placed(draft: Draft, sentinel: Sentinel, pod: PodHere) -> bool:
    since = pod.unschedulable_since
    if since is None:
        draft.waits_for = f"kube-scheduler to place {pod.name}"
        return True
    if draft.now >= since + UNSCHEDULABLE_SECONDS:
        draft.visit(sentinel.nodes, Why.NO_ROOM)
        return False
    draft.at(since + UNSCHEDULABLE_SECONDS)
    draft.waits_for = f"room for {pod.name}"
    return True


def _starts(draft: Draft, sentinel: Sentinel, pod: PodHere) -> bool:
    late = (moment(draft.status.round_at) or draft.now) + START_SECONDS
    if draft.now >= late:
        draft.visit([pod.node], Why.NOT_STARTED)
        words = f"{sentinel.name} did not start on {pod.node}: {pod.trouble or 'it is not ready'}"
        draft.told.append(("SentinelNotStarted", words))
        return False
    draft.at(late)
    draft.waits_for = f"{pod.name} to be ready on {pod.node}"
    return True
