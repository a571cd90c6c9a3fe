"""What happens in a soak, and when: pure, and the same for the same seed.

A soak has two acts, each of which begins with nobody there. Between them and at its ends the
programs are weighed: only what is weighed with the same load, none, can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import StrEnum

import msgspec

TEN_MINUTES = 600.0
SESSIONS = 4
CLIENTS = 3  # of a session, at most: a machine of two cores starts a pod in a second or so
PERSON_SECONDS = 2.5  # a person does something so often, on average


class Do(StrEnum):
    JOIN = "join"  # of a session that is made if it is not there
    LEAVE = "leave"
    LOSE = "lose"  # the connection
    RETURN = "return"
    DELETE_SESSION = "delete-session"
    KILL_POD = "kill-pod"
    KILL_NODE = "kill-node"
    RESTART_OPERATOR = "restart-operator"
    RESTART_GATEWAY = "restart-gateway"
    RESTART_API_SERVER = "restart-api-server"


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """It comes at random, about every so often, and at least once, within a part of an act."""

    every: float  # seconds
    first: float = 0.05  # of an act
    last: float = 0.9


TROUBLES: dict[Do, Trouble] = {
    Do.KILL_POD: Trouble(every=15),
    # A program that is weighed in the end has run for a while: else it says nothing of growth.
    Do.RESTART_OPERATOR: Trouble(every=75, last=0.55),
    Do.RESTART_GATEWAY: Trouble(every=110, last=0.55),
    Do.RESTART_API_SERVER: Trouble(every=160),
    Do.KILL_NODE: Trouble(every=240, last=0.8),
}
# Before the first weighing only what does not end the programs that are weighed.
OURS = frozenset((Do.RESTART_OPERATOR, Do.RESTART_GATEWAY))


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`chance` picks among what is there when it happens: a pod, a node."""

    at: float  # seconds since the act began
    do: Do
    session: str = ""
    client: str = ""
    chance: float = 0.0


class Act(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    steps: tuple[Step, ...]


def planned(seed: int, seconds: float) -> tuple[Act, Act]:
    """The acts until the second weighing, and until the end."""
    first = min(TEN_MINUTES, seconds / 6)
    chance = random.Random(f"soak/{seed}")
    return (
        _act(chance, first, [do for do in TROUBLES if do not in OURS]),
        _act(chance, seconds - first, list(TROUBLES)),
    )


def _act(chance: random.Random, seconds: float, troubles: list[Do]) -> Act:
    steps = [*_people(chance, seconds)]
    for do in troubles:
        steps += _trouble(chance, do, seconds)
    return Act(seconds=seconds, steps=tuple(sorted(steps, key=lambda step: step.at)))


def _trouble(chance: random.Random, do: Do, seconds: float) -> Iterator[Step]:
    """One in each of as many equal spans as it comes times: at random, but never all at once."""
    kind = TROUBLES[do]
    begin, end = kind.first * seconds, kind.last * seconds
    times = max(1, round((end - begin) / kind.every))
    span = (end - begin) / times
    for number in range(times):
        at = begin + span * (number + chance.random())
        yield Step(at=round(at, 3), do=do, chance=round(chance.random(), 6))


def _people(chance: random.Random, seconds: float) -> Iterator[Step]:
    """Keeps who is there, so that nobody leaves who has not come."""
    there: dict[str, dict[str, bool]] = {}  # session → client → whether it is connected
    at, made = 0.0, 0
    while (at := at + chance.expovariate(1 / PERSON_SECONDS)) < seconds:
        session = f"s{chance.randrange(SESSIONS)}"
        clients = there.setdefault(session, {})
        if not clients or (len(clients) < CLIENTS and chance.random() < 0.4):
            made += 1
            client = f"c{made}"
            clients[client] = True
            yield Step(at=round(at, 3), do=Do.JOIN, session=session, client=client)
            continue
        if chance.random() < 0.05:
            clients.clear()
            yield Step(at=round(at, 3), do=Do.DELETE_SESSION, session=session)
            continue
        client = chance.choice(sorted(clients))
        do = Do.RETURN if not clients[client] else chance.choice((Do.LOSE, Do.LEAVE))
        if do is Do.LEAVE:
            del clients[client]
        else:
            clients[client] = do is Do.RETURN
        yield Step(at=round(at, 3), do=do, session=session, client=client)
