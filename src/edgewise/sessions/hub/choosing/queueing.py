"""Who of the waiting clients gets a seat now, who has waited too long, and who is next.

First come, first served: the one who waits longest chooses first among the places that
have room. Somebody may pass only a client who could not use that room at all, because it
asked for one place or its session is limited to some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from edgewise.sessions.hub.choosing.ranking import Candidate, Choice, rank


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One client in the queue; times are seconds since the epoch."""

    id: str
    since: float
    until: float
    latencies: Mapping[str, float] = msgspec.field(default_factory=dict)
    only: str | None = None  # asked for this place and no other
    allowed: frozenset[str] | None = None  # by its session; None is everywhere
    # By place: why its template does badly there, and what that has run out of that it needs.
    degraded: Mapping[str, str] = msgspec.field(default_factory=dict)
    exhausted: Mapping[str, str] = msgspec.field(default_factory=dict)
    ports: Mapping[str, int] = msgspec.field(default_factory=dict)  # that it needs, by protocol


class QueuePlan(msgspec.Struct, frozen=True, kw_only=True):
    admit: dict[str, Choice]
    expire: list[str]
    next_deadline: float | None  # of those who stay


def in_order(queue: Iterable[Waiting]) -> list[Waiting]:
    return sorted(queue, key=lambda waiting: (waiting.since, waiting.id))


def plan_queue(queue: Iterable[Waiting], places: Iterable[Candidate], now: float) -> QueuePlan:
    """`places` count those who are seated; the queue itself must not be in them."""
    free = {place.name: place for place in places if _has_room(place)}
    admit: dict[str, Choice] = {}
    expire: list[str] = []
    staying: list[float] = []
    for waiting in in_order(queue):
        if waiting.until <= now:
            expire.append(waiting.id)
            continue
        choice = _choose(waiting, free) if free else None
        if choice is None:
            staying.append(waiting.until)
            continue
        admit[waiting.id] = choice
        place = free[choice.name].without(waiting.ports)
        place = msgspec.structs.replace(place, clients=place.clients + 1)
        if place.full:
            del free[choice.name]
        else:
            free[choice.name] = place
    return QueuePlan(admit=admit, expire=expire, next_deadline=min(staying, default=None))


def _has_room(place: Candidate) -> bool:
    return not (place.full or place.cordoned or place.trouble)


def _choose(waiting: Waiting, free: Mapping[str, Candidate]) -> Choice | None:
    if waiting.only is not None and waiting.only not in free:
        return None
    usable = [
        _for(waiting, place)
        for name, place in free.items()
        if waiting.allowed is None or name in waiting.allowed
    ]
    choices = rank(usable, waiting.latencies, only=waiting.only).choices
    return choices[0] if choices else None


def _for(waiting: Waiting, place: Candidate) -> Candidate:
    """A place as it is for this client's template."""
    short = place.short_of(waiting.ports)
    if not waiting.degraded and not waiting.exhausted and not short:
        return place
    return msgspec.structs.replace(
        place,
        degraded=waiting.degraded.get(place.name, ""),
        exhausted=short or waiting.exhausted.get(place.name, ""),
    )
