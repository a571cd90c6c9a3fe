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
however near it is. Equal costs go to the place with fewer clients, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

LOAD_MS = 50.0
WAITING_MS = 10.0
MOST_WAITING_MS = 200.0
UNMEASURED_MS = 50.0


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A location as the server sees it now."""

    name: str
    clients: int = 0  # that sit there or were promised a seat
    queued: int = 0  # that wait in the queue and may go there: they come first
    waiting: int = 0  # that sit there and are not ready yet
    capacity: int | None = None  # in clients; None has no bound
    cordoned: bool = False
    trouble: str = ""  # why it is not healthy, as the end of "it …"
    allowed: bool = True  # by the session's choice of locations

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
    places: Iterable[Place], latencies: Mapping[str, float], *, only: str | None = None
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
                why=_why(cost, place, only, None if number else _rival(costed)),
            )
            for number, (cost, place) in enumerate(costed)
        ],
        refused=refused,
    )


class _Cost(msgspec.Struct, frozen=True, order=True):
    total: float
    clients: int
    name: str
    distance: float | None
    measured: bool
    load: float
    waiting: float


# Places are equal only if they are the same one; the order is decided before.
def _cost(place: Place, latency: float | None, farther: float | None) -> _Cost:
    distance = latency if latency is not None else farther
    load = LOAD_MS * place.load**2
    waiting = min(WAITING_MS * place.waiting, MOST_WAITING_MS)
    return _Cost(
        total=(distance or 0.0) + load + waiting,
        clients=place.taken,
        name=place.name,
        distance=distance,
        measured=latency is not None,
        load=load,
        waiting=waiting,
    )


def _refusal(place: Place) -> Refusal | None:
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
    return None


def _why(cost: _Cost, place: Place, only: str | None, rival: str | None) -> str:
    parts = []
    if only is not None:
        parts.append("asked for")
    if cost.distance is not None:
        parts.append(
            f"{cost.distance:.0f} ms away"
            if cost.measured
            else f"not measured, taken as {cost.distance:.0f} ms away"
        )
    if place.capacity is not None:
        parts.append(f"{place.taken} of {place.capacity} clients (+{cost.load:.0f} ms)")
    else:
        parts.append(f"{place.taken} clients, no bound")
    if place.waiting:
        parts.append(f"{place.waiting} wait for their pods (+{cost.waiting:.0f} ms)")
    text = f"{place.name}: {', '.join(parts)}"
    return f"{text}; next best is {rival}" if rival else text


def _rival(costed: list[tuple[_Cost, Place]]) -> str | None:
    if len(costed) < 2:
        return None
    best, second = costed[0][0], costed[1][0]
    return f"{second.name} at {second.total:.0f} ms against {best.total:.0f} ms"
