"""Placements as people read them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgewise.api.placement import LatencyPlacement, Phase, Ranked

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
    "Lost": "the sentinel there was deleted by another hand than the operator's",
    "Limited": "is better, and maxMovesPerHour is used up",
    "HeldBack": "is better, and not all replicas were ready for the move",
    "Unconfirmed": "a probe called it better, and reports did not confirm that",
}


def table(rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(row) for row in rows]
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


def explained(placement: LatencyPlacement) -> str:
    status, spec = placement.status, placement.spec
    lines = [f"{placement.metadata.name} places Deployment {spec.target.name} ({spec.mode})."]
    lines.append(_standing(placement))
    for each in status.conditions:
        if each.message and (each.status == "False" or each.type == "Progressing"):
            lines.append(f"{each.type}: {each.message}.")
    for visited in status.visited:
        lines.append(f"{visited.node}: {_WHY.get(visited.why, visited.why)}.")
    lines.append(
        f"A search takes {status.model_seconds:.1f} s by the model "
        f"(T_S {status.schedule_seconds:.1f} s, T_COM {status.com_seconds:.1f} s measured); "
        f"the last one took {status.convergence_seconds:.1f} s."
    )
    return "\n".join(lines)


def _standing(placement: LatencyPlacement) -> str:
    status = placement.status
    words = f" ({status.message})" if status.message else ""
    match status.phase:
        case Phase.SEARCHING:
            return f"It searches: round {status.round}{words}."
        case Phase.CONVERGED:
            return f"Every node was looked at{words}."
        case Phase.SATISFIED:
            return f"All replicas keep the SLA{words}."
        case Phase.VIOLATED:
            return f"No node keeps the SLA{words}."
        case Phase.PAUSED:
            return "Nothing is done now."
        case _:
            return f"The operator has not looked at it yet, or waits{words}."
