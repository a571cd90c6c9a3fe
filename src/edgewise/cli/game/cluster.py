"""Games of one cluster, by its API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TypeVar

from edgewise.api.games import (
    Allocation,
    AllocationSpec,
    Fleet,
    GameType,
    Operation,
    Server,
)
from edgewise.cli.game.explain import Around
from edgewise.cli.game.views import GameView, ServerView, view_fleet, view_game, view_server
from edgewise.errors import ReadableError
from edgewise.gameservers import names
from edgewise.gameservers.allocation.idle_servers import is_idle
from edgewise.gameservers.allocation.revisions import first_of
from edgewise.gameservers.retirement import hold_of, overtaken
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import AlreadyExists, ApiError, NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

T = TypeVar("T", bound=Object)

# The most that is named of those that exist, when one that does not was asked for.
MOST_NAMES = 12


class GameError(ReadableError):
    """A game command cannot do what it was asked, with what to do about it."""


class NoneFree(GameError):
    """No server of the game is free."""


@contextlib.asynccontextmanager
async def cluster_games(
    kubeconfig: Path | None, context: str | None, namespace: str | None
) -> AsyncIterator[ClusterGames]:
    access = load_access(kubeconfig, context)
    async with Client(access, user_agent="edgewise-game") as client:
        try:
            yield ClusterGames(client, namespace or access.namespace)
        except ApiError as error:
            if isinstance(error, NotFound) and not error.details.get("name"):
                raise GameError(
                    f"the cluster at {access.server} does not know games: install them with "
                    "`edgewise crds install` (`edgewise local platform` and the chart do that, too)"
                ) from error
            raise


class ClusterGames:
    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    # Reading ------------------------------------------------------------------------

    async def games(self) -> list[GameView]:
        """All GameTypes, and the fleets that belong to none."""
        types = (await self._client.list(GameType, self.namespace)).items
        fleets = (await self._client.list(Fleet, self.namespace)).items
        lonely = [each for each in fleets if names.TYPE not in each.metadata.labels]
        return [*map(view_game, types), *map(view_fleet, lonely)]

    async def servers(self, game: str = "") -> list[ServerView]:
        found = await self._servers_of(game)
        allocations = (await self._client.list(Allocation, self.namespace)).items
        taken = {each.metadata.name: each for each in allocations}
        return [view_server(each, taken.get(each.metadata.name)) for each in found]

    async def _servers_of(self, game: str) -> list[Server]:
        """Those of a GameType, or of a Fleet of that name."""
        if not game:
            return (await self._client.list(Server, self.namespace)).items
        for kind, label in ((GameType, names.TYPE), (Fleet, names.FLEET)):
            try:
                await self._client.get(kind, game, self.namespace)
            except NotFound:
                continue
            labels = f"{label}={game}"
            return (await self._client.list(Server, self.namespace, labels=labels)).items
        raise GameError(await self._unknown("game", game))

    async def around(self, name: str) -> Around:
        """A server, and what has a say in whether it stays."""
        try:
            server = await self._client.get(Server, name, self.namespace)
        except NotFound:
            raise GameError(await self._unknown("server", name)) from None
        labels = server.metadata.labels
        hold = hold_of(server, await self._allocations())
        return Around(
            server=server,
            allocation=hold.allocation,
            retired=hold.retired,
            fleet=await self._maybe(Fleet, labels.get(names.FLEET, "")),
            game=await self._maybe(GameType, labels.get(names.TYPE, "")),
            pod=await self._maybe(Pod, names.pod_of(name)) is not None,
        )

    async def _maybe(self, kind: type[T], name: str) -> T | None:
        if not name:
            return None
        try:
            return await self._client.get(kind, name, self.namespace)
        except NotFound:
            return None

    async def follow(self, game: str = "") -> AsyncGenerator[dict[str, ServerView], None]:
        """The servers now, and again whenever something has changed."""
        await self._servers_of(game)  # what is not there is said now
        caches = SharedCaches(self._client)
        servers = caches.of(Server, Selection(namespace=self.namespace))
        allocations = caches.of(Allocation, Selection(namespace=self.namespace))
        changed = asyncio.Event()
        servers.subscribe(lambda *_: changed.set())
        allocations.subscribe(lambda *_: changed.set())
        running = asyncio.create_task(caches.run())
        try:
            while True:
                changed.clear()
                if servers.synced and allocations.synced:
                    views = (view_server(each, allocations.get(each.key)) for each in servers)
                    yield {each.name: each for each in views if game in ("", each.game, each.fleet)}
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):  # wait_for may swallow a Ctrl-C
                        await changed.wait()
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    # Doing --------------------------------------------------------------------------

    async def allocate(self, game: str, match: str) -> ServerView:
        """Take a server by hand. A program asks the server, which also waits and renews."""
        known = await self._allocations()
        had = first_for(known, game, match)
        if had is not None:
            return await self._view_of(had)
        for server in await self._current(game):
            if known.get(server.key) is not None or not is_idle(server):
                continue
            if hold_of(server, known).retired:
                continue
            spec = AllocationSpec(
                server_uid=server.metadata.uid,
                game=game,
                fleet=server.metadata.labels.get(names.FLEET, ""),
                match=match,
                holder="edgewise game allocate",
            )
            named = Allocation.named(server.metadata.name, self.namespace, spec=spec)
            try:
                made = await self._client.create(named)
            except AlreadyExists:
                continue
            # Its fleet may have retired it meanwhile, and somebody may have asked for this match:
            # what was earlier counts, and is seen now. What came too late goes with its server.
            first = first_for(await self._allocations(), game, match)
            if first is not None:
                same = first.metadata.uid == made.metadata.uid
                return view_server(server, made) if same else await self._view_of(first)
        raise NoneFree(f"no server of {game} is free: see `edgewise game list {game}`")

    async def _view_of(self, allocation: Allocation) -> ServerView:
        server = await self._client.get(Server, allocation.metadata.name, self.namespace)
        return view_server(server, allocation)

    async def _allocations(self) -> Cache[Allocation]:
        """As they are at this moment."""
        found = await self._client.list(Allocation, self.namespace)
        made: Cache[Allocation] = Cache(Allocation)
        made.replace(found.items, found.resource_version)
        return made

    async def _current(self, game: str) -> list[Server]:
        """The servers of the fleet that new matches go to."""
        found = await self._servers_of(game)
        with contextlib.suppress(NotFound):
            current = await self._client.get(GameType, game, self.namespace)
            fleet = current.status.current_fleet_name
            return [each for each in found if each.metadata.labels.get(names.FLEET) == fleet]
        return found

    async def retire(self, name: str) -> None:
        """Ask the game of a server to end; its fleet replaces it."""
        body = {"spec": {"operation": Operation.RETIRE.value}}
        try:
            await self._client.patch(Server, name, self.namespace, body=body)
        except NotFound:
            raise GameError(await self._unknown("server", name)) from None

    async def is_there(self, name: str) -> bool:
        try:
            await self._client.get(Server, name, self.namespace)
        except NotFound:
            return False
        return True

    async def _unknown(self, what: str, name: str) -> str:
        if what == "server":
            known = [each.name for each in await self.servers()]
        else:
            known = [each.name for each in await self.games()]
        some = ", ".join(sorted(known)[:MOST_NAMES])
        more = " ..." if len(known) > MOST_NAMES else ""
        there = f"there are: {some}{more}" if known else "there is none"
        return f"there is no {what} {name} in namespace {self.namespace}; {there}"


def first_for(allocations: Cache[Allocation], game: str, match: str) -> Allocation | None:
    """What a match has: the earliest, of those whose server was not retired before."""
    return first_of(
        each
        for each in allocations
        if each.spec.game == game and each.spec.match == match and not overtaken(each, allocations)
    )
