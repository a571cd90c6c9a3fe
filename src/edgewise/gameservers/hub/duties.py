"""What the leading replica does for allocations: serve the line, and end what is over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from edgewise.api.games import Allocation
from edgewise.gameservers.allocation.apply import AllocationTaken
from edgewise.gameservers.allocation.claiming import Claims
from edgewise.gameservers.allocation.line import deadline_of, plan_for
from edgewise.gameservers.allocation.matches import ANYTHING
from edgewise.gameservers.allocation.plan import Removal, Seen, plan_cleaning
from edgewise.gameservers.allocation.revisions import MatchKey, match_of
from edgewise.gameservers.hub.metrics import TAKEN_BACK, WAIT_SECONDS
from edgewise.gameservers.hub.records import Games
from edgewise.kube.errors import KubeError
from edgewise.runtime.errors import ServiceError
from edgewise.runtime.heartbeats.presence import Presence
from edgewise.workloads.deadlines import moment

EVERY_SECONDS = 1.0
# At once: an allocation that has to be acknowledged keeps its place for a while.
MOST_SERVED = 64

_log = logging.getLogger(__name__)


class Duties:
    def __init__(
        self,
        games: Games,
        claims: Claims,
        presence: Presence,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._games = games
        self._claims = claims
        self._presence = presence
        self._clock = clock
        self._monotonic = monotonic
        self._first_seen: dict[str, float] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        cleaned = float("-inf")
        try:
            with self._claims.matches.watching(ANYTHING) as changed:
                while True:
                    changed.clear()
                    if self._games.link.ready:
                        self.serve_lines()
                        if self._monotonic() - cleaned >= EVERY_SECONDS:
                            cleaned = self._monotonic()
                            await self.clean()
                            await self._presence.sweep()
                    try:
                        async with asyncio.timeout(EVERY_SECONDS):
                            await changed.wait()
                    except TimeoutError:
                        continue
        finally:
            # Another replica leads from now on.
            for task in self._serving.values():
                task.cancel()

    # The line ---------------------------------------------------------------------------

    def serve_lines(self) -> None:
        matches = self._claims.matches
        for name in matches.games_with_line():
            game = self._games.game(name)
            if game is None:
                continue
            given = plan_for(matches, self._claims.idle, game, self._clock())
            for waiting in matches.line(name):
                uid = waiting.metadata.uid
                if waiting.metadata.name not in given or uid in self._serving:
                    continue
                if len(self._serving) >= MOST_SERVED:
                    return
                task = asyncio.create_task(self._serve(name, waiting))
                self._serving[uid] = task
                task.add_done_callback(partial(self._served, uid))

    def _served(self, uid: str, _: asyncio.Task[None]) -> None:
        self._serving.pop(uid, None)

    async def _serve(self, name: str, waiting: Allocation) -> None:
        game = self._games.game(name)
        if game is None:
            return
        try:
            given = await self._claims.serve(game, waiting)
        except (ServiceError, KubeError) as error:
            _log.warning("%s waits on: %s", waiting.spec.match, error)
        except Exception:
            _log.exception("serving the line of %s failed", name)
        else:
            since = moment(waiting.metadata.creation_timestamp)
            if given is not None and since is not None:
                WAIT_SECONDS.observe(max(0.0, self._clock() - since))

    # What is over -----------------------------------------------------------------------

    async def clean(self) -> None:
        for removal in plan_cleaning(self._seen(), self._clock()):
            try:
                await self._remove(removal)
            except (ServiceError, KubeError) as error:
                _log.warning("%s stays: %s", removal.allocation.metadata.name, error)

    async def _remove(self, removal: Removal) -> None:
        allocation = removal.allocation
        if removal.earlier is not None:
            # Our view may be old. While the earlier one is there, nobody was told of this one;
            # once that is gone, this one may be what its match has.
            current = await self._claims.writer.read(removal.earlier.metadata.name)
            if current is None or current.metadata.uid != removal.earlier.metadata.uid:
                return
        try:
            # If it has changed since, the next look decides.
            await self._claims.writer.drop(allocation)
        except AllocationTaken:
            return
        spec = allocation.spec
        if self._games.game(spec.game) is not None:
            TAKEN_BACK.labels(spec.game).inc()
        _log.info(
            "%s of %s is taken back from %s: %s",
            allocation.metadata.name,
            spec.game,
            spec.match,
            removal.why,
        )

    def _seen(self) -> list[Seen]:
        now = self._monotonic()
        matches = self._claims.matches
        found: list[Seen] = []
        first_seen: dict[str, float] = {}
        for allocation in matches.all():
            match = match_of(allocation)
            if match is None and allocation.spec.waiting is not None:
                # Of another hand. It is served by nobody, and ends with its time.
                match = MatchKey(allocation.spec.game, "", allocation.metadata.name)
            if match is None:
                continue
            uid = allocation.metadata.uid
            first_seen[uid] = self._first_seen.get(uid, now)
            server = matches.server_of(allocation)
            said = server.status.game if server is not None else None
            waits = allocation.spec.waiting is not None
            found.append(
                Seen(
                    allocation=allocation,
                    match=match,
                    age=now - first_seen[uid],
                    silent=self._presence.silent_for(uid),
                    players=(said.players or 0) if said is not None else 0,
                    acknowledged=matches.acknowledged(allocation),
                    until=deadline_of(allocation) if waits else None,
                )
            )
        self._first_seen = first_seen
        return found
