"""What becomes of a client whose pods do not become ready. Pure.

It is moved to the next best location, each at most once in a round. When there is none left, it
stays where it is until a time that is written in its binding; then the next round begins. Somebody
who was served in its location is not moved by this: its pods are replaced there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from edgewise.api.global_sessions import ClientBindingSpec, Failover, GlobalSession
from edgewise.api.sessions import DEFAULT_READY_SECONDS, ClientPhase, Session, SessionTemplate
from edgewise.runtime.backoff import Backoff
from edgewise.sessions.hub.choosing.degraded import PORTS_EXHAUSTED, Failure
from edgewise.sessions.hub.choosing.ranking import Candidate, Choice, rank
from edgewise.sessions.steps.seat_endpoints import no_port

ROUNDS = Backoff(first=60.0, most=900.0)
MOST_TRIED = 64
_NO_PORT = frozenset(no_port(protocol) for protocol in ("TCP", "UDP"))
_SILENT = Failure(message="its operator says nothing of the client")


class Stage(StrEnum):
    WAITING = "waiting"
    SERVED = "served"  # it was ready before: recovery is another rule
    READY = "ready"


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster shows of a client that sits in it."""

    stage: Stage = Stage.WAITING
    late: bool = False  # by the count of the cluster's own operator
    exhausted: bool = False  # there is no public port for it
    failure: Failure = _SILENT


def look_at(part: Session | None, client: str) -> Sight:
    """`part` is the Session in the client's cluster."""
    status = part.status.clients.get(client) if part is not None else None
    if part is None or status is None:
        return Sight()
    if status.ready:
        return Sight(stage=Stage.READY)
    if status.endpoints or status.phase in (ClientPhase.NOT_READY, ClientPhase.RECOVERING):
        return Sight(stage=Stage.SERVED)
    if client not in part.spec.clients:
        return Sight()  # it is about an earlier stay
    failure = Failure(reason=status.reason, message=status.message)
    if status.message in _NO_PORT:
        failure = Failure(reason=PORTS_EXHAUSTED, message=status.message)
    elif not failure.text:
        failure = _of_session(part)
    # Before the operator has seen the last change, what it says may be of an earlier stay.
    current = part.status.observed_generation >= part.metadata.generation
    return Sight(
        late=status.late and current, exhausted=failure.exhausted and current, failure=failure
    )


def _of_session(part: Session) -> Failure:
    for condition in part.status.conditions:
        if condition.type == "Degraded" and condition.status == "True":
            return Failure(reason=condition.reason, message=condition.message)
    return Failure(message="its operator does not say why")


def ready_seconds(template: SessionTemplate | None) -> int:
    said = template.spec.ready_seconds if template is not None else None
    return said or DEFAULT_READY_SECONDS


def may_move(session: GlobalSession, spec: ClientBindingSpec) -> bool:
    """Not out of the one place that was asked for, and not where pods must never run twice."""
    return (
        session.spec.failover is Failover.MOVE and not spec.only and not session.metadata.deleting
    )


def resting(spec: ClientBindingSpec, now: datetime) -> bool:
    """Whether all places were tried, and the next round has not begun."""
    return spec.retry is not None and now < spec.retry


class Move(msgspec.Struct, frozen=True, kw_only=True):
    choices: list[Choice]  # best first
    tried: list[str]
    rounds: int


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing else will do now."""

    until: datetime
    tried: list[str]
    rounds: int
    why: str


def next_step(
    spec: ClientBindingSpec,
    places: Sequence[Candidate],
    *,
    now: datetime,
    what: str,
    delay: Callable[[int], float] = ROUNDS.delay,
) -> Move | Rest | None:
    """For a client that is late where it sits; `what` says what happened there.

    None: it stays, and there is nothing to say that its cluster does not say.
    """
    if resting(spec, now):
        return None
    others = [place for place in places if place.name != spec.location and place.allowed]
    if not others:
        return None
    before = [] if spec.retry is not None else spec.tried
    tried = [*(name for name in before if name != spec.location), spec.location][-MOST_TRIED:]
    ranking = rank([place for place in others if place.name not in tried], spec.latencies)
    choices = [choice for choice in ranking.choices if not choice.degraded]
    if choices:
        return Move(choices=choices, tried=tried, rounds=spec.rounds)
    said = {name: refusal.why for name, refusal in ranking.refused.items()}
    said |= {place.name: place.degraded for place in others if place.degraded}
    said |= {place.name: "was tried" for place in others if place.name in tried}
    rounds = spec.rounds + 1
    until = (now + timedelta(seconds=delay(rounds))).replace(microsecond=0)
    rest = "; ".join(f"{name} {why}" for name, why in sorted(said.items()))
    return Rest(
        until=until,
        tried=tried,
        rounds=rounds,
        why=f"{what}; other locations are tried again from {until:%Y-%m-%dT%H:%M:%SZ} on: {rest}",
    )
