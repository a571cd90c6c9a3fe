"""The way of one call: from "a server for this match" to the one server it has.

The creation of an Allocation under the server's name takes the server. Before the caller is told,
this replica waits until it has seen its own creation: by then it has also seen every earlier one.
If an earlier one is of the same match, this one is dropped, of which nobody was told, and that one
is the answer. Whatever is cut short, the repeated call finds what is there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from edgewise.api.games import Allocation, AllocationSpec, WaitingInLine, WaitingSelector
from edgewise.gameservers.allocation.apply import AllocationTaken, Writer, line_name
from edgewise.gameservers.allocation.choice import Candidate
from edgewise.gameservers.allocation.errors import GamesUnreachable, NoServerFree
from edgewise.gameservers.allocation.idle_servers import IdleServers
from edgewise.gameservers.allocation.line import (
    Game,
    check_place,
    check_room,
    deadline_of,
    plan_for,
    wish_of,
)
from edgewise.gameservers.allocation.matches import Matches
from edgewise.gameservers.allocation.plan import stands
from edgewise.gameservers.allocation.request import AllocationRequest, Fits, read_selectors
from edgewise.gameservers.allocation.revisions import MatchKey
from edgewise.gameservers.retirement import created
from edgewise.workloads.deadlines import stamp

# A watch that has not shown our own creation by then is in trouble. Shorter than the leader waits
# before it takes a second Allocation of a match for one that a dead replica left.
SEEN_SECONDS = 12.0
# So often others may be faster before the caller is asked to come back.
ATTEMPTS = 64
RETRY_SECONDS = 2


class Given(msgspec.Struct, frozen=True):
    """The server of a match, or its place in the line (`allocation.spec.waiting`)."""

    allocation: Allocation
    new: bool = False


class Claims:
    def __init__(
        self,
        matches: Matches,
        idle: IdleServers,
        writer: Writer,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.matches = matches
        self.idle = idle
        self.writer = writer
        self._clock = clock
        self._under_way: dict[MatchKey, asyncio.Task[Given]] = {}

    async def allocate(self, game: Game, holder: str, wish: AllocationRequest) -> Given:
        """The server of this match: the one it has, or a new one, or a place in the line."""
        fits = read_selectors(wish.selectors)
        key = MatchKey(game.name, holder, wish.match)
        task = self._under_way.get(key)
        if task is not None:
            # Sent twice at once: one way, and all get the same answer.
            return msgspec.structs.replace(await asyncio.shield(task), new=False)
        return await self._run(key, self._allocate(key, game, wish, fits))

    async def serve(self, game: Game, waiting: Allocation) -> Given | None:
        """A server for one that waits, and its place in the line is free; None if there is none."""
        wish = wish_of(waiting)
        key = MatchKey(game.name, waiting.spec.holder, waiting.spec.match)
        if key in self._under_way:
            return None
        try:
            return await self._run(
                key,
                self._take(
                    key, game, wish, read_selectors(wish.selectors), own_place=waiting.metadata.name
                ),
            )
        except NoServerFree:
            return None

    async def find(self, key: MatchKey) -> Given | None:
        """What a match has, made sure of."""
        for _ in range(ATTEMPTS):
            known = self.matches.first(key)
            if known is None:
                break
            sure = await self._make_sure(known)
            if sure is not None:
                return await self._out_of_line(key, Given(sure))
        waiting = self.matches.waiting(key)
        return Given(waiting) if waiting is not None else None

    async def _run(self, key: MatchKey, way: Coroutine[Any, Any, Given]) -> Given:
        task = self._under_way[key] = asyncio.create_task(way)
        task.add_done_callback(lambda done: self._ended(key, done))
        # A caller who gives up does not take the answer from the others.
        return await asyncio.shield(task)

    def _ended(self, key: MatchKey, task: asyncio.Task[Given]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # the callers were told, if any are left

    # One call ---------------------------------------------------------------------------

    async def _allocate(
        self, key: MatchKey, game: Game, wish: AllocationRequest, fits: Fits
    ) -> Given:
        found = await self.find(key)
        if found is not None:
            waits = found.allocation.spec.waiting is not None
            if not waits or deadline_of(found.allocation) > self._clock():
                return found
            await self.writer.release(found.allocation)
        try:
            return await self._take(key, game, wish, fits)
        except NoServerFree:
            if not wish.wait:
                raise
        return await self._queue(key, wish)

    async def _take(
        self, key: MatchKey, game: Game, wish: AllocationRequest, fits: Fits, own_place: str = ""
    ) -> Given:
        unfit: set[str] = set()
        for _ in range(ATTEMPTS):
            known = self.matches.first(key)
            if known is not None:
                sure = await self._make_sure(known)
                if sure is not None:
                    return await self._out_of_line(key, Given(sure))
                continue
            # Who waits longer goes first.
            others = plan_for(self.matches, self.idle, game, self._clock(), before=own_place)
            reserved = {each.name for each in others.values()}
            candidate = game.choose(self.idle, fits, unfit | reserved)
            if candidate is None:
                raise NoServerFree(f"no server of {game.name} is free now", RETRY_SECONDS)
            given = await self._claim(key, candidate, wish)
            if given is not None:
                return await self._out_of_line(key, given)
            unfit.add(candidate.name)
        raise NoServerFree(f"others were faster all the time to take {game.name}'s servers", 1)

    async def _claim(
        self, key: MatchKey, candidate: Candidate, wish: AllocationRequest
    ) -> Given | None:
        """Take this server; None if it cannot be had, or if the match has an earlier one."""
        with self.idle.claiming(candidate.name):
            try:
                own = await self.writer.create(candidate.name, spec_of(key, candidate, wish))
            except AllocationTaken:
                self.idle.lose(candidate.name)
                return None
            await self._see(own)
        if self.matches.overtaken(own):
            self.idle.lose(candidate.name)
            await self.writer.release(own)
            return None
        of_match = self.matches.of(key)
        if not any(each.metadata.uid == own.metadata.uid for each in of_match):
            return None  # its server has gone meanwhile, and it with the server
        if not stands(own, of_match):
            try:
                await self.writer.drop(own)
            except AllocationTaken:
                # Another replica has made sure of it: the earlier one was released meanwhile.
                await self.matches.moved_on(own, SEEN_SECONDS)
            return None
        if own.spec.acknowledge_seconds:
            sure = await self._acknowledged(own)
            return Given(sure, new=True) if sure is not None else None
        return Given(own, new=True)

    async def _see(self, own: Allocation) -> None:
        if not await self.matches.seen(own.metadata.resource_version, SEEN_SECONDS):
            # It is there, and the repeated call finds it, here or at another replica.
            raise GamesUnreachable

    # What another one made --------------------------------------------------------------

    async def _make_sure(self, known: Allocation) -> Allocation | None:
        """It, if it is there now and stays; None if things have changed."""
        if known.status.revision:
            current = await self.writer.read(known.metadata.name)
            if current is None or current.metadata.uid != known.metadata.uid:
                await self.matches.moved_on(known, SEEN_SECONDS)
                return None
        else:
            try:
                current = await self.writer.confirm(known)
            except AllocationTaken:
                await self.matches.moved_on(known, SEEN_SECONDS)
                return None
        if current.spec.acknowledge_seconds and not current.status.acknowledged:
            return await self._acknowledged(current)
        return current

    async def _acknowledged(self, own: Allocation) -> Allocation | None:
        """It, when its game has acknowledged it; None if it was taken back."""

        def decided() -> bool:
            now = self.matches.find(own.metadata.name)
            gone = now is None or now.metadata.uid != own.metadata.uid
            return gone or self.matches.acknowledged(now or own)

        await self.matches.until(own.key, decided, own.spec.acknowledge_seconds)
        for _ in range(ATTEMPTS):
            current = await self.writer.read(own.metadata.name)
            if current is None or current.metadata.uid != own.metadata.uid:
                return None
            if current.status.acknowledged:
                return current
            try:
                if self.matches.acknowledged(current):
                    # Written down here, or another replica could take it back.
                    return await self.writer.confirm(current, stamp(self._clock()))
                await self.writer.drop(current)
            except AllocationTaken:
                continue
            await self.matches.moved_on(own, SEEN_SECONDS)
            return None
        return None

    # The line ---------------------------------------------------------------------------

    async def _out_of_line(self, key: MatchKey, given: Given) -> Given:
        """Before anybody is told: a place that is older than the server of its match was served,
        and if it stayed when the match is over, it would be served once more, for nobody."""
        place = self.matches.waiting(key)
        if place is not None and created(place) < created(given.allocation):
            await self.writer.release(place)
        return given

    async def _queue(self, key: MatchKey, wish: AllocationRequest) -> Given:
        check_room(self.matches, key, wish)
        spec = AllocationSpec(
            waiting=WaitingInLine(
                until=stamp(self._clock() + wish.wait),
                selectors=[
                    WaitingSelector(labels=each.labels, version=each.version)
                    for each in wish.selectors
                ],
            ),
            **_told(key, wish),
        )
        for _ in range(ATTEMPTS):
            try:
                own = await self.writer.create(line_name(key), spec)
            except AllocationTaken:
                current = await self.writer.read(line_name(key))
                if current is None:
                    continue
                check_place(key, current)
                return Given(current)
            await self._see(own)
            known = self.matches.first(key)
            sure = await self._make_sure(known) if known is not None else None
            if sure is not None:
                await self.writer.release(own)
                return Given(sure)
            return Given(own, new=True)
        raise NoServerFree(f"others change the place of {key.match} all the time", 1)


def spec_of(key: MatchKey, candidate: Candidate, wish: AllocationRequest) -> AllocationSpec:
    return AllocationSpec(
        server_uid=candidate.uid,
        fleet=candidate.fleet,
        acknowledge_seconds=candidate.acknowledge,
        **_told(key, wish),
    )


def _told(key: MatchKey, wish: AllocationRequest) -> dict[str, Any]:
    return {
        "game": key.game,
        "holder": key.holder,
        "match": key.match,
        "players": wish.players,
        "lease_seconds": wish.lease,
        "metadata": wish.metadata,
    }
