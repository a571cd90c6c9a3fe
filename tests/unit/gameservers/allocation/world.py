"""An API server, replicas, an operator and crashes, in whatever order a test likes.

The replicas are the real ones (claims, matches, caches). Each of their requests stands still until
the test lets the API server carry it out; its answer may be lost, and the replica may die before it
comes. Each replica sees changes when the test shows them to it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from edgewise.api.games import Allocation, AllocationSpec, Server, ServerSpec
from edgewise.gameservers.allocation.apply import AllocationTaken, Writer
from edgewise.gameservers.allocation.claiming import Claims
from edgewise.gameservers.allocation.errors import GamesUnreachable, NoServerFree
from edgewise.gameservers.allocation.idle_servers import IdleServers
from edgewise.gameservers.allocation.line import Game
from edgewise.gameservers.allocation.matches import Matches
from edgewise.gameservers.allocation.plan import Seen, plan_cleaning
from edgewise.gameservers.allocation.request import AllocationRequest
from edgewise.gameservers.allocation.revisions import match_of
from edgewise.gameservers.names import retiring
from edgewise.gameservers.retirement import Hold, hold_of, overtaken, unseen
from edgewise.kube.errors import AlreadyExists, Conflict, NotFound, Unreachable
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache

NAMESPACE = "play"
GAME = Game("chess", ("fleet", "chess"))
replace = msgspec.structs.replace


class Life(msgspec.Struct):
    """From which revision to which an Allocation was there."""

    match: str
    server: str
    born: int
    died: float = float("inf")
    dropped: bool = False  # by a replica, and not by who holds it


class Told(msgspec.Struct, frozen=True):
    """An answer: which Allocation, and the revisions between question and answer."""

    match: str
    uid: str
    asked: int
    answered: int


class Api:
    def __init__(self) -> None:
        self.revision = 100
        self.objects: dict[str, Allocation] = {}
        self.log: list[tuple[Allocation, bool]] = []
        self.lives: dict[str, Life] = {}
        self._uids = itertools.count(1)

    def create(self, obj: Allocation) -> Allocation:
        name = obj.metadata.name
        if name in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{name} exists")
        uid = f"u{next(self._uids)}"
        made = self._put(obj, uid=uid)
        self.lives[uid] = Life(obj.spec.match, name, self.revision)
        return made

    def get(self, name: str) -> Allocation:
        if name not in self.objects:
            raise NotFound(404, "NotFound", f"{name} not found")
        return self.objects[name]

    def patch(self, name: str, body: dict[str, Any]) -> Allocation:
        now = self.get(name)
        if body["metadata"]["resourceVersion"] != now.metadata.resource_version:
            raise Conflict(409, "Conflict", f"{name} has changed")
        return self._put(replace(now, status=replace(now.status, **body["status"])))

    def delete(self, name: str, uid: str | None, version: str | None, *, dropped: bool) -> None:
        now = self.get(name)
        meta = now.metadata
        if uid not in (None, meta.uid) or version not in (None, meta.resource_version):
            raise Conflict(409, "Conflict", f"{name} has changed")
        del self.objects[name]
        self.revision += 1
        gone = replace(now, metadata=replace(meta, resource_version=str(self.revision)))
        self.log.append((gone, True))
        life = self.lives[meta.uid]
        life.died, life.dropped = self.revision, dropped

    def _put(self, obj: Allocation, **meta: str) -> Allocation:
        self.revision += 1
        metadata = replace(obj.metadata, resource_version=str(self.revision), **meta)
        made = replace(obj, metadata=metadata)
        self.objects[made.metadata.name] = made
        self.log.append((made, False))
        return made


class Request(msgspec.Struct, eq=False):
    replica: Replica
    carry_out: Callable[[], Any]
    answer: Any  # a future


class Gate:
    """The client of one replica: requests wait here until the test lets them pass."""

    def __init__(self, world: World, replica: Replica) -> None:
        self._world = world
        self._replica = replica

    async def _ask(self, carry_out: Callable[[], Any]) -> Any:
        answer = asyncio.get_running_loop().create_future()
        request = Request(self._replica, carry_out, answer)
        self._world.pending.append(request)
        try:
            return await answer
        finally:
            if request in self._world.pending:
                self._world.pending.remove(request)

    async def create(self, obj: Allocation) -> Allocation:
        return await self._ask(lambda: self._world.api.create(obj))

    async def get(self, kind: type[Allocation], name: str, namespace: str) -> Allocation:
        return await self._ask(lambda: self._world.api.get(name))

    async def patch(
        self, kind: type[Allocation], name: str, namespace: str, *, body: Any, subresource: str
    ) -> Allocation:
        assert subresource == "status"
        return await self._ask(lambda: self._world.api.patch(name, body))

    async def delete(
        self,
        kind: type[Allocation],
        name: str,
        namespace: str,
        *,
        uid: str | None,
        resource_version: str | None,
    ) -> None:
        await self._ask(lambda: self._world.api.delete(name, uid, resource_version, dropped=True))


class Replica:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.calls: set[asyncio.Task[None]] = set()
        self.start()

    def start(self) -> None:
        servers: Cache[Server] = Cache(Server)
        servers.replace(self.world.servers, "50")
        self.cache: Cache[Allocation] = Cache(Allocation)
        self.relist()
        self.matches = Matches(servers, self.cache, NAMESPACE)
        idle = IdleServers(servers, self.cache, salt=str(self.number))
        self.writer = Writer(Gate(self.world, self), NAMESPACE)  # type: ignore[arg-type]
        self.claims = Claims(self.matches, idle, self.writer)

    # What it sees -----------------------------------------------------------------------

    def show(self, number: int) -> None:
        """The next changes of the stream."""
        for obj, deleted in self.world.api.log[self.shown : self.shown + number]:
            self.cache.apply(obj, deleted=deleted)
            self.shown += 1

    def relist(self) -> None:
        """All of it at once, by name."""
        api = self.world.api
        found = [api.objects[name] for name in sorted(api.objects)]
        self.cache.replace(found, str(api.revision))
        self.shown = len(api.log)

    # What it does -----------------------------------------------------------------------

    def call(self, match: str) -> None:
        self._begin(self._call(match))

    async def _call(self, match: str) -> None:
        asked = self.world.api.revision
        try:
            given = await self.claims.allocate(GAME, "arena", AllocationRequest(match=match))
        except (NoServerFree, GamesUnreachable):
            return
        uid = given.allocation.metadata.uid
        self.world.told.append(Told(match, uid, asked, self.world.api.revision))

    def clean(self) -> None:
        self._begin(self._clean())

    async def _clean(self) -> None:
        """As the leader does, 30 s after a replica may have died."""
        busy = {key.match for each in self.world.replicas for key in each.claims._under_way}
        seen = [
            Seen(allocation=each, match=match, age=0.0 if each.spec.match in busy else 60.0)
            for each in self.matches.all()
            if (match := match_of(each)) is not None
        ]
        for removal in plan_cleaning(seen, 0.0):
            assert removal.earlier is not None
            first = await self.writer.read(removal.earlier.metadata.name)
            if first is None or first.metadata.uid != removal.earlier.metadata.uid:
                continue
            try:
                await self.writer.drop(removal.allocation)
            except (AllocationTaken, GamesUnreachable):
                continue

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)

    def crash(self) -> None:
        """Whatever it was doing ends here; another one takes its place."""
        for task in [*self.calls, *self.claims._under_way.values()]:
            task.cancel()
        self.world.pending[:] = [each for each in self.world.pending if each.replica is not self]
        self.start()


class Operator:
    """Takes servers out of their fleet, many by one list. Its own writes are in its cache before
    the stream shows them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.removed: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        api = self.world.api
        self.cache: Cache[Allocation] = Cache(Allocation)
        self.cache.replace(list(api.objects.values()), str(api.revision))
        self.shown = len(api.log)

    def show(self, number: int) -> None:
        for obj, deleted in self.world.api.log[self.shown : self.shown + number]:
            self.cache.apply(obj, deleted=deleted)
            self.shown += 1

    def retire(self, number: int, *, lost: bool) -> None:
        """Those that seem to be idle, of the two that the replicas choose first."""
        chosen = [self.world.servers[at] for at in ((1,), (1, 3), (3,))[number % 3]]
        idle = [each for each in chosen if hold_of(each, self.cache) == Hold()]
        if not idle or unseen(self.cache, Key(NAMESPACE, "chess")):
            return
        spec = AllocationSpec(
            retires={each.metadata.name: each.metadata.uid for each in idle},
            retired=True,
            fleet="chess",
        )
        name = retiring(idle[0].metadata.name)
        try:
            made = self.world.api.create(Allocation.named(name, NAMESPACE, spec=spec))
        except AlreadyExists:
            made = self.world.api.get(name)
        if not lost:
            self.cache.write_through(made)

    def remove(self) -> None:
        for server in self.world.servers:
            if hold_of(server, self.cache).retired:
                self.removed.setdefault(server.metadata.name, self.world.api.revision)


class World:
    def __init__(self, servers: int, replicas: int) -> None:
        self.api = Api()
        self.pending: list[Request] = []
        self.told: list[Told] = []
        self.servers = [_server(f"s{number}") for number in range(servers)]
        self.replicas: list[Replica] = []
        for number in range(replicas):
            self.replicas.append(Replica(self, number))
        self.operator = Operator(self)

    def counting(self) -> list[Allocation]:
        """The matches that have a server; without those that came too late."""
        found: Cache[Allocation] = Cache(Allocation)
        found.replace(list(self.api.objects.values()), str(self.api.revision))
        return [each for each in found if each.spec.match and not overtaken(each, found)]

    def carry_out(self, request: Request, *, lost: bool = False, crash: bool = False) -> None:
        self.pending.remove(request)
        try:
            answer = request.carry_out()
        except Exception as error:
            answer = error
        if crash:
            request.replica.crash()
        elif lost:
            request.answer.set_exception(Unreachable("the answer was lost"))
        elif isinstance(answer, Exception):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    def release(self, match: str) -> None:
        """By who holds it: what it was told last."""
        for told in reversed(self.told):
            if told.match == match:
                for name, each in list(self.api.objects.items()):
                    if each.metadata.uid == told.uid:
                        self.api.delete(name, told.uid, None, dropped=False)
                return

    async def pause(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Everything is carried out, and shown to all, until nothing is left to do."""
        for _ in range(500):
            await self.pause()
            for request in list(self.pending):
                if request in self.pending:
                    self.carry_out(request)
            for replica in self.replicas:
                replica.show(10_000)
            self.operator.show(10_000)
            await self.pause()
            if not self.pending and not any(replica.calls for replica in self.replicas):
                return
        raise AssertionError("it never comes to rest")


def _server(name: str) -> Server:
    server = Server.named(name, NAMESPACE, spec=ServerSpec(pod={}))
    metadata = replace(
        server.metadata, uid=f"of-{name}", resource_version="10", labels={"fleet": "chess"}
    )
    return replace(
        server, metadata=metadata, status=replace(server.status, state="Ready", node="n1")
    )
