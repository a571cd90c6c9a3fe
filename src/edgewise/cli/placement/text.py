"""Placements as people read them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from edgewise.api.placement import LatencyPlacement, Phase, Ranked, seconds
from edgewise.cli.errors import one_line
from edgewise.workloads.deadlines import moment, stamp

_WHY = {
    "Worse": "was measured, and is not better by minImprovement",
    "Replaced": "held a replica, and a better node was found",
    "NoRoom": "kube-scheduler found no room there",
    "NoQuota": "a quota of the namespace refused the sentinel",
    "Refused": "the API server refused the sentinel",
    "NotStarted": "the sentinel was not ready there within 60 s",
    "NoReports": "no client reported the sentinel there",
    "NotReady": "the node does not answer",
    "Cordoned": "the node is cordoned",
    "Lost": "the pod there was deleted by another hand than the operator's",
    "Limited": "is better, and maxMovesPerHour is used up",
    "HeldBack": "is better, and not all replicas were ready for the move",
    "Unconfirmed": "a probe called it better, and reports did not confirm that",
}


def table(rows: Iterable[Sequence[str]]) -> str:
    # The first column may be indented.
    lines = [(row[0], *map(one_line, row[1:])) for row in rows]
    widths = [max(len(row[column]) for row in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in lines
    )


def listed(placements: Iterable[LatencyPlacement], *, everywhere: bool = False) -> str:
    head = ("NAME", "TARGET", "MODE", "PHASE", "ROUND", "MOVES", "NODES")
    rows = [(("NAMESPACE",) if everywhere else ()) + head]
    for each in placements:
        status = each.status
        row = (
            each.metadata.name,
            each.spec.target.name,
            each.spec.mode,
            status.phase or "-",
            str(status.round),
            str(status.moves),
            status.message or "-",
        )
        rows.append(((each.metadata.namespace,) if everywhere else ()) + row)
    return table(rows) if len(rows) > 1 else "there are no placements"


def shown(placement: LatencyPlacement, *, live: bool = False) -> str:
    status, spec = placement.status, placement.spec
    search = status.search
    head = (
        f"{placement.metadata.name}: {status.phase or 'not looked at yet'}, search {search.number}"
        f"{f' ({search.reason})' if search.reason else ''}, round {status.round}, "
        f"{status.moves} moves"
    )
    lines = [head]
    for each in status.sentinels:
        where = (
            each.node or f"one of {', '.join(each.nodes[:4])}{'…' if len(each.nodes) > 4 else ''}"
        )
        lines.append(f"  sentinel {each.name} on {where}{' (ready)' if each.ready_at else ''}")
    if status.decision is not None:
        for pair in status.decision.promote:
            lines.append(f"  {pair.sentinel} on {pair.node} replaces {pair.loser}")
    lines += _ranking(placement)
    if status.message:
        lines.append(f"  {status.message}")
    if not live:
        lines.append(
            f"  model {status.model_seconds:.1f} s, last search "
            f"{status.convergence_seconds:.1f} s, overload {status.overload_percent:.0f} % with "
            f"{spec.sentinels} sentinels, "
            f"{status.sentinel_seconds:.1f} sentinel seconds"
        )
    return "\n".join(lines)


def _ranking(placement: LatencyPlacement) -> list[str]:
    visited = {each.node: each.why for each in placement.status.visited}
    if not placement.status.ranking:
        return []
    rows: list[tuple[str, ...]] = [("  NODE", "RTT", "P95", "CLIENTS", "AGE", "SOURCE", "VISITED")]
    rows += [_row(each, visited.get(each.node, "")) for each in placement.status.ranking[:20]]
    return [table(rows)]


def _row(each: Ranked, why: str) -> tuple[str, ...]:
    return (
        f"  {each.node}",
        f"{each.rtt_ms:.1f} ms",
        f"{each.p95_ms:.1f} ms",
        str(each.clients),
        f"{each.age:.0f} s",
        each.source,
        why,
    )


class Told(msgspec.Struct, frozen=True):
    """Of a condition that is not as it should be, or of a node that is out."""

    what: str
    why: str
    words: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a placement runs where it runs."""

    name: str
    target: str
    mode: str
    phase: str
    standing: str
    conditions: list[Told]
    nodes: list[Told]
    next_search: str
    model_seconds: float
    schedule_seconds: float
    com_seconds: float
    last_search_seconds: float


def explanation(placement: LatencyPlacement) -> Explanation:
    status, spec = placement.status, placement.spec
    return Explanation(
        name=placement.metadata.name,
        target=spec.target.name,
        mode=spec.mode,
        phase=status.phase,
        standing=_standing(placement),
        conditions=[
            Told(each.type, each.reason, each.message)
            for each in status.conditions
            # Ready only repeats what the others say.
            if each.message
            and each.type != "Ready"
            and (each.status == "False" or each.type == "Progressing")
        ],
        nodes=[Told(each.node, each.why, _WHY.get(each.why, each.why)) for each in status.visited],
        next_search=_next_search(placement),
        model_seconds=status.model_seconds,
        schedule_seconds=status.schedule_seconds,
        com_seconds=status.com_seconds,
        last_search_seconds=status.convergence_seconds,
    )


def explained(why: Explanation) -> str:
    lines = [f"{why.name} places Deployment {why.target} ({why.mode}).", why.standing]
    lines += [f"{each.what}: {each.words}." for each in why.conditions]
    lines += [f"{each.what}: {each.words}." for each in why.nodes]
    if why.next_search:
        lines.append(f"The next search: {why.next_search}.")
    measured = bool(why.schedule_seconds or why.com_seconds)
    taken = f"T_S {why.schedule_seconds:.1f} s, T_COM {why.com_seconds:.1f} s measured"
    if why.model_seconds:
        lines.append(
            f"A search takes {why.model_seconds:.1f} s by the model "
            f"({taken if measured else 'nothing is measured yet'})"
            + (
                f"; the last one took {why.last_search_seconds:.1f} s."
                if why.last_search_seconds
                else "."
            )
        )
    return "\n".join(lines)


def _next_search(placement: LatencyPlacement) -> str:
    status, spec = placement.status, placement.spec
    ended = moment(status.search.ended_at)
    if ended is None:
        return ""
    words = f"at {stamp(ended + seconds(spec.trigger))} (spec.trigger {spec.trigger})"
    if spec.threshold is not None and not status.search.futile:
        words += f", or when p95 is above {spec.threshold.p95_ms:g} ms"
    return words + ", or after a rollout or a change of the placement"


def _standing(placement: LatencyPlacement) -> str:
    status = placement.status
    words = f" ({status.message})" if status.message else ""
    standings: dict[str, str] = {
        Phase.SEARCHING: f"It searches: round {status.round}{words}.",
        Phase.CONVERGED: f"Every node was looked at{words}.",
        Phase.SATISFIED: f"All replicas keep the SLA{words}.",
        Phase.VIOLATED: f"No node keeps the SLA{words}.",
        Phase.PAUSED: "Nothing is done now.",
    }
    if status.phase in standings:
        return standings[status.phase]
    if status.conditions:
        return f"No search was begun yet{words}."
    return "The operator has not looked at it yet: is it running?"
