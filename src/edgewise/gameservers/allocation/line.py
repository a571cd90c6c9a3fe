"""The line of a game: matches that wait for a server, each with a deadline."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import NamedTuple

from edgewise.api.games import Allocation
from edgewise.gameservers.allocation.choice import Candidate
from edgewise.gameservers.allocation.errors import NoServerFree
from edgewise.gameservers.allocation.idle_servers import IdleServers, Pool
from edgewise.gameservers.allocation.matches import Matches
from edgewise.gameservers.allocation.plan import Waiting, plan_line
from edgewise.gameservers.allocation.request import (
    ANY,
    AllocationRequest,
    Fits,
    Selector,
    read_selectors,
)
from edgewise.gameservers.allocation.revisions import MatchKey, Wished, match_of, wished
from edgewise.runtime.errors import Unacceptable
from edgewise.workloads.deadlines import moment

# In the line of one game, of one holder.
MOST_WAITING = 1000
MOST_WISHES = 8
FULL_SECONDS = 5


class Game(NamedTuple):
    """Where servers of a game are taken from, and on which nodes first."""

    name: str
    pool: Pool
    packed: bool = True
    # Servers that are taken only if the pool has none: idle ones of an older version, which a
    # roll-out keeps until the new version has enough.
    spare: tuple[Pool, ...] = ()

    def choose(
        self, idle: IdleServers, fits: Fits, without: Set[str] = frozenset()
    ) -> Candidate | None:
        for pool in (self.pool, *self.spare):
            found = idle.choose(pool, fits, packed=self.packed, without=without)
            if found is not None:
                return found
        return None

    def has_idle(self, idle: IdleServers) -> bool:
        return any(idle.count(pool) for pool in (self.pool, *self.spare))


def deadline_of(allocation: Allocation) -> float:
    """Until when it waits, in seconds since the epoch; what cannot be read is over."""
    waiting = allocation.spec.waiting
    return (moment(waiting.until) if waiting is not None else None) or 0.0


def wish_of(waiting: Allocation) -> AllocationRequest:
    """What one that waits had asked for."""
    spec = waiting.spec
    said = spec.waiting.selectors if spec.waiting is not None else []
    return AllocationRequest(
        match=spec.match,
        players=spec.players,
        selectors=[Selector(labels=each.labels, version=each.version) for each in said],
        metadata=spec.metadata,
        lease=spec.lease_seconds,
    )


def plan_for(
    matches: Matches, idle: IdleServers, game: Game, now: float, *, before: str = ""
) -> dict[str, Candidate]:
    """Which servers the line of a game takes; with `before`, only those in front of that one."""
    if not game.has_idle(idle):
        return {}
    line: list[Waiting] = []
    for each in matches.line(game.name):
        if each.metadata.name == before:
            break
        line.append(Waiting(name=each.metadata.name, fits=_fits(each), until=deadline_of(each)))
    if not line:
        return {}
    return plan_line(
        line,
        lambda fits, without: game.choose(idle, fits, without),
        now,
    )


def _fits(waiting: Allocation) -> Fits:
    return _read(wished(waiting))


# Every call for a server looks at the line, whose wishes are mostly alike and never change.
@lru_cache(maxsize=4096)
def _read(said: Wished) -> Fits:
    if not said:
        return (ANY,)
    try:
        return read_selectors(
            [Selector(labels=labels, version=version) for labels, version in said]
        )
    except Unacceptable:  # written by another hand
        return ()


def check_room(matches: Matches, key: MatchKey, wish: AllocationRequest) -> None:
    """Raise, with a sentence, if a holder has as much in the line of a game as it may.

    A wish that is like another one costs nothing: whoever finds no server for the first does not
    look for the second. So what is bounded is how many differ, and how many there are.
    """
    mine = matches.waiting_of(key.game, key.holder)
    said = tuple((each.labels, each.version) for each in wish.selectors)
    if mine.total() >= MOST_WAITING:
        text = f"{MOST_WAITING} of your matches wait for {key.game} already"
    elif said not in mine and len(mine) >= MOST_WISHES:
        text = (
            f"selectors: your matches wait for {key.game} with {MOST_WISHES} different selectors "
            "already"
        )
    else:
        return
    raise NoServerFree(f"no server of {key.game} is free now, and {text}", FULL_SECONDS)


def check_place(key: MatchKey, found: Allocation) -> None:
    """Raise, with a sentence, if what has the name of a match's place in the line is not that."""
    if found.spec.waiting is None or match_of(found) != key:
        raise NoServerFree(
            f"no server of {key.game} is free now, and the place of {key.match} in the line is "
            f"taken by an Allocation of another hand: delete {found.metadata.name}",
            FULL_SECONDS,
        )
