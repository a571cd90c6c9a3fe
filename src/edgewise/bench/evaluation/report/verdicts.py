"""What the figures say, in sentences: where Edgewise is better, where it is not, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgewise.bench.evaluation.records import Kind, Record

OURS = "edgewise"
FLOOR = "bare"
STATIC = "deployment"
SCOPED = "session-deployment"
SHARES = ("p5", "p50", "p80", "p95", "max")
# By how much memory may lie above the other design in a minute.
MEMORY_ABOVE = 1.05
LATE_MS = 50.0

Figures = Mapping[str, Mapping[str, Any]]

WHY = {
    STATIC: "Its pods run before the first client comes, as many as there will ever be, and cost "
    "memory all the time; without warm pods Edgewise starts one for each client.",
    SCOPED: "It never takes a pod away before the session ends, so that a client may find one that "
    "another client left behind; `--reuse-seconds` lets Edgewise do the same.",
    FLOOR: "Nobody stands between that client and its pod: no operator has to see the join, no "
    "gateway to take a route, and they work on the same cores.",
}


def verdicts(figures: Figures) -> list[str]:
    """By the figures alone."""
    ours = figures.get(OURS)
    if ours is None:
        return ["Edgewise was not among the cases."]
    found: list[str] = []
    for word, key in (("Connection", "connect_s"), ("Recovery", "recover_s")):
        for case, theirs in figures.items():
            if case != OURS:
                found += _beside(word, case, ours[key], theirs[key])
    return found


def _beside(
    word: str, case: str, ours: Mapping[str, float], theirs: Mapping[str, float]
) -> Iterator[str]:
    shares = [each for each in SHARES if each in theirs and each in ours]
    if not shares:
        yield f"{word} beside {case}: not enough was measured."
        return
    better = [each for each in shares if ours[each] < theirs[each]]
    worse = [each for each in shares if each not in better]
    said = f"{word} beside {case}: lower at {', '.join(better) or 'none'}; "
    said += f"not lower at {', '.join(worse) or 'none'}."
    if case == FLOOR and theirs.get("p50"):
        said += f" Its p50 is {ours['p50'] / theirs['p50']:.2f} times the floor."
    yield f"{said} {WHY[case]}" if worse and case in WHY else said


def memory_verdicts(records: Mapping[str, Sequence[Record]], speed: float) -> list[str]:
    """Of the pods, minute by minute of the trace."""
    return [
        f"Memory beside {case}: {found['mean']:.2f} times as much on average, "
        f"{found['later']:.2f} after the peak, "
        f"less in {found['less_percent']:.0f} % of the minutes, {found['least']:.2f} times as much "
        f"at best; more than 5 % above it in {found['above']} of {found['minutes']} minutes."
        for case, found in beside(records, speed, lambda each: each.pods_mb).items()
    ]


def beside(
    records: Mapping[str, Sequence[Record]], speed: float, value: Callable[[Record], float]
) -> dict[str, dict[str, float]]:
    """What the pods of Edgewise use, as ratios to those of each baseline, in the same minutes."""
    by_minute = {case: _by_minute(found, speed, value) for case, found in records.items()}
    ours = by_minute.get(OURS, {})
    found = {}
    for case in (STATIC, SCOPED):
        theirs = by_minute.get(case, {})
        both = sorted(minute for minute in ours.keys() & theirs.keys() if theirs[minute])
        if not both:
            continue
        ratios = [ours[each] / theirs[each] for each in both]
        most = max(both, key=lambda minute: ours[minute])
        later = [each for each in both if each > most] or both[-1:]
        found[case] = {
            "mean": _ratio(ours, theirs, both),
            # While users leave: after the minute in which Edgewise used most.
            "later": _ratio(ours, theirs, later),
            "least": round(min(ratios), 3),
            "less_percent": round(100 * sum(each < 1 for each in ratios) / len(both), 1),
            "above": sum(each > MEMORY_ABOVE for each in ratios),
            "minutes": len(both),
        }
    return found


def _ratio(ours: Mapping[int, float], theirs: Mapping[int, float], of: Sequence[int]) -> float:
    return round(sum(ours[each] for each in of) / sum(theirs[each] for each in of), 3)


def _by_minute(
    records: Sequence[Record], speed: float, value: Callable[[Record], float]
) -> dict[int, float]:
    samples: dict[int, list[float]] = {}
    for each in records:
        if each.kind is Kind.USE:
            samples.setdefault(int(each.at * speed // 60), []).append(value(each))
    return {minute: sum(values) / len(values) for minute, values in samples.items()}


def timing_verdict(figures: Figures, speed: float) -> list[str]:
    """Whether the load was the same in all cases."""
    late = {case: found["late_ms"] for case, found in figures.items() if found.get("late_ms")}
    if not late:
        return []
    most = max(found["max"] for found in late.values())
    p99 = max(found["p99"] for found in late.values())
    said = f"No event began more than {most:.0f} ms late (p99: {p99:.0f} ms at most)"
    held = "which keeps" if most <= LATE_MS else "which misses"
    at = "" if speed == 1 else f", at {speed:g} times the speed of the trace"
    return [f"{said}, {held} the bound of {LATE_MS:.0f} ms{at}."]
