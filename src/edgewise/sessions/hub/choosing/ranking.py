"""Where a client is best placed: a pure function of what is known, which says why.

Everything is brought to one unit, the millisecond that a person would notice:

    cost = distance + load² · 50 ms + 10 ms per client there that still waits for its pods

- *distance* is what the client measured. A place it could not measure counts as 50 ms
  farther than the farthest one that it could.
- *load* is the share of the place's capacity that is taken or promised. It is squared, so
  that a half-full neighbour (12.5 ms) beats a distant empty one, and a nearly full one does
  not: its next client would be the one that suffers, and nobody after it would find room.
- *waiting* clients say that a place takes people but cannot serve them (nodes full, images
  slow), whatever its capacity on paper; past 200 ms it stops counting.

A place that is cordoned, unhealthy, full, or not allowed for the session is never chosen,
however near it is. One that is degraded, because it does not get the template's pods ready, comes
after all others. Equal costs go to the place with fewer clients, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

LOAD_MS = 50.0
WAITING_MS = 10.0
MOST_WAITING_MS = 200.0
UNMEASURED_MS = 50.0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A location as the server sees it now."""

    name: str
    clients: int = 0  # that sit there or were promised a seat
    queued: int = 0  # that wait in the queue and may go there: they come first
    waiting: int = 0  # that sit there and are not ready yet
    capacity: int | None = None  # in clients; None has no bound
    cordoned: bool = False
    trouble: str = ""  # why it is not healthy, as the end of "it …"
    allowed: bool = True  # by the session's choice of locations
    degraded: str = ""  # why the session's template does badly there, as the end of "it …"
    trial: bool = False  # it is degraded, and this client may find out whether it still is
    exhausted: str = ""  # what it has run out of that the template needs, as the end of "it …"
    free_ports: Mapping[str, int] | None = None  # by protocol; None: the cluster does not say

    def short_of(self, needed: Mapping[str, int]) -> str:
        """Which ports it lacks for one more client that needs some, as the end of "it …"."""
        if self.free_ports is None:
            return ""
        lacking = [name for name, number in needed.items() if self.free_ports[name] < number]
        return f"is full: no public {' or '.join(sorted(lacking))} port is free" if lacking else ""

    def without(self, needed: Mapping[str, int]) -> Candidate:
        """With so many free ports fewer."""
        if self.free_ports is None or not needed:
            return self
        left = {name: number - needed.get(name, 0) for name, number in self.free_ports.items()}
        return msgspec.structs.replace(self, free_ports=left)

    @property
    def taken(self) -> int:
        return self.clients + self.queued

    @property
    def full(self) -> bool:
        return self.capacity is not None and self.taken >= self.capacity

    @property
    def load(self) -> float:
        if self.capacity is None:
            return 0.0
        return min(1.0, self.taken / self.capacity) if self.capacity else 1.0


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cost_ms: float
    why: str
    degraded: bool = False  # a last resort
    trial: bool = False


class Obstacle(StrEnum):
    """Why a place cannot be chosen, from the most to the least hopeless."""

    UNKNOWN = "unknown"
    NOT_ALLOWED = "not allowed"
    CORDONED = "cordoned"
    UNHEALTHY = "unhealthy"
    FULL = "full"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    obstacle: Obstacle
    why: str


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The places that will do, best first, and for each other place why it will not."""

    choices: list[Choice]
    refused: dict[str, Refusal]

    @property
    def full(self) -> bool:
        """Nothing but people stands in the way, so waiting for one to leave makes sense."""
        return not self.choices and any(
            refusal.obstacle is Obstacle.FULL for refusal in self.refused.values()
        )

    @property
    def why_not(self) -> str:
        """All refusals that matter to the reader, as one sentence."""
        said = [
            f"{name} {refusal.why}"
            for name, refusal in sorted(self.refused.items())
            if refusal.obstacle is not Obstacle.NOT_ALLOWED
        ]
        return "; ".join(said) or "no location is registered for this session"


def rank(
    places: Iterable[Candidate], latencies: Mapping[str, float], *, only: str | None = None
) -> Ranking:
    """Rank `places` for a client that measured `latencies` (ms by name), or asks for one place."""
    known = {place.name: place for place in places}
    if only is not None and only not in known:
        return Ranking(
            choices=[],
            refused={only: Refusal(obstacle=Obstacle.UNKNOWN, why="is not a known location")},
        )
    if only is not None:
        known = {only: known[only]}
    refused = {
        name: refusal for name, place in known.items() if (refusal := _refusal(place)) is not None
    }
    measured = [latencies[name] for name in known if name in latencies]
    farther = max(measured) + UNMEASURED_MS if measured else None
    costed = sorted(
        (_cost(place, latencies.get(name), farther), place)
        for name, place in known.items()
        if name not in refused
    )
    return Ranking(
        choices=[
            Choice(
                name=place.name,
                cost_ms=round(cost.total, 1),
                why=_why(cost, place, only, None if number else _rest(costed)),
                degraded=cost.last,
                trial=place.trial,
            )
            for number, (cost, place) in enumerate(costed)
        ],
        refused=refused,
    )


class _Cost(msgspec.Struct, frozen=True, order=True):
    last: bool  # degraded: after all that are not, whatever they cost
    total: float
    clients: int
    name: str
    distance: float | None
    measured: bool
    load: float
    waiting: float


# Places are equal only if they are the same one; the order is decided before.
def _cost(place: Candidate, latency: float | None, farther: float | None) -> _Cost:
    distance = latency if latency is not None else farther
    load = LOAD_MS * place.load**2
    waiting = min(WAITING_MS * place.waiting, MOST_WAITING_MS)
    return _Cost(
        last=bool(place.degraded) and not place.trial,
        total=(distance or 0.0) + load + waiting,
        clients=place.taken,
        name=place.name,
        distance=distance,
        measured=latency is not None,
        load=load,
        waiting=waiting,
    )


def _refusal(place: Candidate) -> Refusal | None:
    if not place.allowed:
        return Refusal(obstacle=Obstacle.NOT_ALLOWED, why="is not a location of this session")
    if place.cordoned:
        return Refusal(obstacle=Obstacle.CORDONED, why="is cordoned and takes no new clients")
    if place.trouble:
        return Refusal(obstacle=Obstacle.UNHEALTHY, why=place.trouble)
    if place.full:
        queue = f" and {place.queued} wait for it" if place.queued else ""
        return Refusal(
            obstacle=Obstacle.FULL,
            why=f"is full ({place.clients} of {place.capacity} clients{queue})",
        )
    if place.exhausted:
        return Refusal(obstacle=Obstacle.FULL, why=place.exhausted)
    return None


def _why(cost: _Cost, place: Candidate, only: str | None, rest: str | None) -> str:
    parts = []
    if only is not None:
        parts.append("asked for")
    if cost.distance is not None:
        parts.append(
            f"{cost.distance:.0f} ms away"
            if cost.measured
            else f"not measured, taken as {cost.distance:.0f} ms away"
        )
    elif only is None:
        parts.append("no distance was measured")
    if place.capacity is not None:
        parts.append(f"{place.taken} of {place.capacity} clients (+{cost.load:.0f} ms)")
    else:
        parts.append(f"{place.taken} client{'' if place.taken == 1 else 's'}, no bound")
    if place.waiting:
        parts.append(f"{place.waiting} wait for their pods (+{cost.waiting:.0f} ms)")
    text = f"{place.name}: {', '.join(parts)}"
    if place.degraded:
        text += f"; {'a trial: it' if place.trial else 'it'} {place.degraded}"
    return f"{text}; {rest}" if rest else text


def _rest(costed: list[tuple[_Cost, Candidate]]) -> str:
    """What is to be said of the places that are not the best one."""
    best = costed[0][0]
    parts = []
    if len(costed) > 1 and costed[1][0].last == best.last:
        second = costed[1][0]
        text = f"next best is {second.name}"
        if best.distance is not None:  # else the sums leave out what matters most
            text += f" at {second.total:.0f} ms against {best.total:.0f} ms"
        parts.append(text)
    # Those that would have been chosen, were it not for this.
    parts += [
        f"{place.name} {place.degraded}"
        for cost, place in costed[1:]
        if cost.last and not best.last and cost.total < best.total
    ]
    return "; ".join(parts)
