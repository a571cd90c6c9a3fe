"""Which node is better, by how much, and how that is said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from edgewise.api.placement import MinImprovement, Ranked, Visited, Why
from edgewise.workloads.deadlines import moment, stamp


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """What users measured of a node."""

    node: str
    rtt_ms: float
    p95_ms: float
    n: int
    last: float  # when it was last reported
    source: str = "Reports"
    newest_ms: float = 0.0  # by the last votes alone; 0 where nobody said
    least_ms: float = 0.0  # by the better ones of the last two; 0 where nobody said
    settled: bool = True  # by more than one vote

    @property
    def now_ms(self) -> float:
        return self.newest_ms or self.rtt_ms

    @property
    def shortest_ms(self) -> float:
        return self.least_ms or self.now_ms


def improves(new_ms: float, old_ms: float, wanted: MinImprovement) -> bool:
    """Whether a node is better by enough: by the milliseconds and by the percentage."""
    gain = old_ms - new_ms
    return gain > 0 and gain >= wanted.ms and gain >= old_ms * wanted.percent / 100


def by_node(values: Iterable[Value]) -> dict[str, Value]:
    """Pods of one node share its value: that of more clients, or the newer one."""
    found: dict[str, Value] = {}
    for value in values:
        known = found.get(value.node)
        if known is None or (known.n, known.last) < (value.n, value.last):
            found[value.node] = value
    return found


def ranked(
    before: Iterable[Ranked], values: Mapping[str, Value], nodes: Iterable[str], now: float
) -> list[Ranked]:
    """The nodes that there are, best first. A value stays until a newer one is there."""
    there = set(nodes)
    found = {each.node: each for each in before if each.node in there}
    for value in values.values():
        if value.node in there:
            found[value.node] = Ranked(
                node=value.node,
                rtt_ms=round(value.rtt_ms, 2),
                p95_ms=round(value.p95_ms, 2),
                clients=value.n,
                age=round(max(0.0, now - value.last), 1),
                source=value.source,
                at=stamp(value.last),
            )
    for node, each in found.items():
        if node not in values:
            seen = moment(each.at)
            age = each.age if seen is None else round(max(0.0, now - seen), 1)
            found[node] = msgspec.structs.replace(each, age=age)
    return sorted(found.values(), key=lambda each: (each.rtt_ms, each.node))


def in_words(
    ranking: Iterable[Ranked], held: Iterable[str], visited: Iterable[Visited], most: int = 3
) -> str:
    """Such as `n3 at 25 ms; n1 at 0 ms is full`: where it runs, and what is nearer."""
    order, holding = list(ranking), set(held)
    why = {each.node: each.why for each in visited}
    here = [each for each in order if each.node in holding]
    words = [_at(each) for each in here[:most]]
    if len(here) > most:
        words.append(f"{len(here) - most} more")
    worst = here[-1].rtt_ms if here else 0.0
    for each in order:
        if here and each.node not in holding and each.rtt_ms < worst and len(words) < most + 2:
            words.append(f"{_at(each)}{_but(why.get(each.node, ''))}")
    return "; ".join(words)


def _at(each: Ranked) -> str:
    return f"{each.node} at {each.rtt_ms:.0f} ms"


_BUT = {
    Why.NO_ROOM: " is full",
    Why.NO_QUOTA: " is beyond the quota",
    Why.REFUSED: " is refused by the API server",
    Why.HELD_BACK: " waits for replicas to be ready",
    Why.NOT_STARTED: " does not start it",
    Why.NOT_READY: " is not ready",
    Why.CORDONED: " is cordoned",
    Why.NO_REPORTS: " is not reported",
    Why.LIMITED: " waits for maxMovesPerHour",
    Why.UNCONFIRMED: " was not confirmed by reports",
    Why.WORSE: " is not enough better",
    Why.REPLACED: " was worse when it was left",
}


def _but(why: str) -> str:
    try:
        return _BUT.get(Why(why), "")
    except ValueError:
        return ""
