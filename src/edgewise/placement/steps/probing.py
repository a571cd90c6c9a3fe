"""Moves to a node that is known to be better: probed by clients, or with room for one more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgewise.api.placement import Decision, Promotion, Sentinel, Unconfirmed, Why
from edgewise.placement.draft import Draft
from edgewise.placement.observed import PodHere
from edgewise.placement.ranking import Value, improves
from edgewise.placement.reports import RATE
from edgewise.placement.steps import searching
from edgewise.placement.steps.starting import UNHEARD, start
from edgewise.workloads.deadlines import moment, stamp

HOUR = 3600.0


def moves_left(draft: Draft) -> int:
    most = draft.seen.spec.max_moves_per_hour
    if not most:
        return 1_000_000
    recent = [
        each for each in draft.status.recent_moves if (moment(each) or 0.0) > draft.now - HOUR
    ]
    return max(0, most - len(recent))


def most_per_node(draft: Draft) -> int:
    """One while there are more nodes than replicas; else as few as possible."""
    given, nodes = draft.seen.spec.max_per_node, sum(node.usable for node in draft.seen.nodes)
    if given:
        return given
    return 1 if draft.wanted < nodes else -(-draft.wanted // max(1, nodes))


def gains(draft: Draft, most: int) -> list[Sentinel]:
    """Where a replica could go that is worth it, by what was reported in this search."""
    values = {each.node: each.rtt_ms for each in draft.status.ranking}
    off = draft.visited()
    targets = {node for node in draft.held() if node not in off and draft.usable(node)}
    return _towards(draft, values, targets, most)


def _towards(
    draft: Draft, values: Mapping[str, float], targets: set[str], most: int
) -> list[Sentinel]:
    """The worst replicas, each with the best node that has room; only where it gains."""
    cap, wanted = most_per_node(draft), draft.seen.spec.min_improvement
    counts = Counter(pod.node for pod in draft.replicas)
    worst = sorted(
        (pod for pod in draft.replicas if pod.node in values),
        key=lambda pod: (-values[pod.node], pod.name),
    )
    best = sorted((node for node in targets if node in values), key=lambda n: (values[n], n))
    found: list[Sentinel] = []
    for pod in worst[: min(most, moves_left(draft))]:
        node = next((node for node in best if counts[node] < cap), None)
        if node is None or not improves(values[node], values[pod.node], wanted):
            break
        counts[node] += 1
        found.append(Sentinel(name="", nodes=[node], replaces=pod.name))
    return found


# Probe ----------------------------------------------------------------------------------


def next_probed_round(draft: Draft, most: int) -> None:
    """One step to the best nodes that clients measured; back again if reports do not confirm."""
    if draft.status.unconfirmed:
        _confirm(draft)
        return
    probed = _probed(draft)
    if probed is None:
        return
    values = probed | _reported(draft, probed)
    targets = {
        node.name for node in draft.seen.nodes if node.usable and node.name not in draft.visited()
    }
    moves = _towards(draft, values, targets, most)
    if moves:
        start(draft, moves)
    else:
        searching.finish(draft)


def _probed(draft: Draft) -> dict[str, float] | None:
    """What was probed of each node; None while some are awaited.

    One late answer, as while a core is awaited, may make a near node far: there must be two votes,
    and the better one counts. Where users went above the threshold, the last one does, if it is of
    the last T_O before this search or later: they may have moved, and what was near before may be
    far. They were above it for 2·T_O by then, so what was measured in the second of these is
    theirs now.
    """
    t_o, moved = draft.seen.observation, _users_moved(draft)
    began = moment(draft.status.search.began_at) or draft.now
    # No client reports more in a second than RATE: of many nodes, that takes a while.
    all_reported = len(draft.seen.nodes) / RATE
    latest = draft.now - max(5 * t_o, 5.0, 2 * all_reported)
    if moved:
        latest = max(latest, began - t_o)
    fresh = {name: each for name, each in draft.seen.probed.items() if each.last >= latest}
    sure = {name for name, each in fresh.items() if moved or each.settled}
    missing = [node.name for node in draft.seen.nodes if node.usable and node.name not in sure]
    late = began + max(UNHEARD * t_o, 4 * all_reported)
    if missing and draft.now < late:
        draft.at(late)
        draft.waits_for = f"probes of {', '.join(missing[:3])}"
        return None
    return {name: _believed(draft, each) for name, each in fresh.items()}


def _reported(draft: Draft, probed: Mapping[str, float]) -> dict[str, float]:
    """The nodes that hold replicas, as their users report them, where a probe says that they are
    farther than that or says nothing: a node is not left for what only its probe says of it."""
    found: dict[str, float] = {}
    for pod in draft.replicas:
        value = draft.fresh(pod)
        if value is not None:
            rtt = _believed(draft, value)
            found[pod.node] = min(rtt, found.get(pod.node, rtt), probed.get(pod.node, rtt))
    return found


def _users_moved(draft: Draft) -> bool:
    return draft.status.search.reason == searching.THRESHOLD


def _believed(draft: Draft, value: Value) -> float:
    return value.now_ms if _users_moved(draft) else value.shortest_ms


def _confirm(draft: Draft) -> None:
    """Reports through the Service have the last word about what a probe promised."""
    waiting: list[Unconfirmed] = []
    back: list[Sentinel] = []
    for each in draft.status.unconfirmed:
        pod = next((pod for pod in draft.replicas if pod.name == each.pod), None)
        if pod is None:
            continue  # Kubernetes has replaced it: nothing is left to take back
        value, until = draft.fresh(pod), moment(each.until) or draft.now
        worse = value is None or improves(
            each.before_ms, value.shortest_ms, draft.seen.spec.min_improvement
        )
        # To go back is a move, too: one late answer does not decide it either.
        sure = value is not None and value.settled
        if worse and not sure and draft.now < until:
            waiting.append(each)
            draft.at(until)
            draft.waits_for = f"reports that confirm {each.node}"
        elif worse:
            draft.visit([each.node], Why.UNCONFIRMED)
            if draft.usable(each.back_to):
                back.append(Sentinel(name="", nodes=[each.back_to], replaces=each.pod))
    draft.status.unconfirmed = waiting
    if back:
        draft.told.append(("GoesBack", f"reports do not confirm {draft.status.visited[-1].node}"))
        start(draft, back)


def decide_directed(draft: Draft) -> None:
    """Each sentinel that is ready takes the place of the replica it was started for."""
    sentinels = draft.status.sentinels
    if not all(draft.sentinels[each.name].ready for each in sentinels):
        return
    promote: list[Promotion] = []
    remove: list[str] = []
    for each in sentinels:
        loser = next((pod for pod in draft.replicas if pod.name == each.replaces), None)
        if loser is None:
            remove.append(each.name)  # Kubernetes has replaced it already
        else:
            promote.append(_promotion(draft, each, loser))
    draft.remember_sentinels()
    names = {each.sentinel for each in promote}
    draft.status.sentinels = [each for each in sentinels if each.name in names]
    draft.status.decision = Decision(at=stamp(draft.now), promote=promote, remove=remove)


def _promotion(draft: Draft, sentinel: Sentinel, loser: PodHere) -> Promotion:
    """One that goes back, or to a node that runs replicas already, needs no confirmation."""
    heard, probes = draft.measured(), draft.seen.spec.mode == "Probe"
    left = heard.get(loser.node) or draft.seen.probed.get(loser.node)
    there = draft.seen.probed.get(sentinel.node) or heard.get(sentinel.node)
    before = _believed(draft, left) if left else 0.0
    returns = loser.node in {
        each.node for each in draft.status.visited if each.why == Why.UNCONFIRMED
    }
    confirm = probes and not returns and left is not None
    if not returns:
        draft.visit([loser.node], Why.REPLACED)
    return Promotion(
        sentinel=sentinel.name,
        loser=loser.name,
        loser_uid=loser.uid,
        node=sentinel.node,
        since=stamp(draft.now),
        gain_ms=round(before - _believed(draft, there), 2) if there else 0.0,
        back_to=loser.node if confirm else "",
        before_ms=round(before, 2),
    )
