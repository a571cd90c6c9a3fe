"""An API server, replicas, an operator and crashes, in whatever order a test likes.

The replicas are the real ones (claims, matches, caches). Each of their requests stands still until
the test lets the API server carry it out; its answer may be lost, and the replica may die before it
comes. Each replica sees changes when the test shows them to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from edgewise.api.games import Allocation, AllocationSpec, GameSaid, Server, ServerSpec
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
    known: bool  # to its game, if that has to acknowledge


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


class Timed(Matches):
    """Waits for as long as the test likes, and not by the clock."""

    _time_up: asyncio.Event | None = None

    async def until(self, topic: Hashable, holds: Callable[[], bool], within: float) -> bool:
        up = self._time_up = self._time_up or asyncio.Event()
        with self.watching(topic) as changed:
            while not holds() and not up.is_set():
                changed.clear()
                waits = [asyncio.ensure_future(each.wait()) for each in (changed, up)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in waits:
                        each.cancel()
        return holds()

    def time_up(self) -> bool:
        """Whoever waits now has waited long enough; whether anybody did."""
        up, self._time_up = self._time_up, None
        if up is not None:
            up.set()
        return up is not None


class Replica:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.calls: set[asyncio.Task[None]] = set()
        self.start()

    def start(self) -> None:
        self.servers: Cache[Server] = Cache(Server)
        self.hear()
        self.cache: Cache[Allocation] = Cache(Allocation)
        self.relist()
        self.matches = Timed(self.servers, self.cache, NAMESPACE)
        idle = IdleServers(self.servers, self.cache, salt=str(self.number))
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

    def hear(self) -> None:
        """What games have said meanwhile."""
        said = max(int(each.metadata.resource_version) for each in self.world.servers)
        self.servers.replace(self.world.servers, str(said))

    # What it does -----------------------------------------------------------------------

    def call(self, match: str, wait: int = 0) -> None:
        self._begin(self._call(AllocationRequest(match=match, wait=wait)))

    async def _call(self, wish: AllocationRequest) -> None:
        match, asked = wish.match, self.world.api.revision
        try:
            given = await self.claims.allocate(GAME, "arena", wish)
        except (NoServerFree, GamesUnreachable):
            return
        if given.allocation.spec.waiting is not None:
            return
        uid, wanted = given.allocation.metadata.uid, given.allocation.spec.acknowledge_seconds
        known = not wanted or uid in self.world.acknowledged
        self.world.told.append(Told(match, uid, asked, self.world.api.revision, known))

    def serve(self) -> None:
        """As the leader does; for a while two may think that they lead."""
        for waiting in self.matches.line(GAME.name):
            self._begin(self._serve(waiting))

    async def _serve(self, waiting: Allocation) -> None:
        with contextlib.suppress(GamesUnreachable):
            await self.claims.serve(GAME, waiting)

    def clean(self) -> None:
        self._begin(self._clean())

    async def _clean(self) -> None:
        """As the leader does, 30 s after a replica may have died."""
        busy = {key.match for each in self.world.replicas for key in each.claims._under_way}
        seen = [
            Seen(
                allocation=each,
                match=match,
                age=0.0 if each.spec.match in busy else 60.0,
                acknowledged=self.matches.acknowledged(each),
            )
            for each in self.matches.all()
            if (match := match_of(each)) is not None
        ]
        for removal in plan_cleaning(seen, 0.0):
            try:
                if removal.earlier is not None:
                    first = await self.writer.read(removal.earlier.metadata.name)
                    if first is None or first.metadata.uid != removal.earlier.metadata.uid:
                        continue
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
    def __init__(self, servers: int, replicas: int, acknowledge: str = "0s") -> None:
        self.api = Api()
        self.pending: list[Request] = []
        self.told: list[Told] = []
        self.acknowledged: set[str] = set()
        self.servers = [_server(f"s{number}", acknowledge) for number in range(servers)]
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

    def acknowledge(self, number: int) -> None:
        """The game of a server has taken the match that it has, and replicas hear of it later."""
        server = self.servers[number % len(self.servers)]
        taken = self.api.objects.get(server.metadata.name)
        if taken is None or taken.metadata.uid in self.acknowledged:
            return
        uid, self.api.revision = taken.metadata.uid, self.api.revision + 1
        self.acknowledged.add(uid)
        metadata = replace(server.metadata, resource_version=str(self.api.revision))
        status = replace(server.status, game=GameSaid(acknowledged=uid))
        at = self.servers.index(server)
        self.servers[at] = replace(server, metadata=metadata, status=status)

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

    async def settle(self, *, answering: bool = True) -> None:
        """Everything is carried out, and shown to all, until nothing is left to do. Games answer,
        or else the time of all that wait for them passes."""
        for _ in range(500):
            await self.pause()
            for request in list(self.pending):
                if request in self.pending:
                    self.carry_out(request)
            for number in range(len(self.servers) if answering else 0):
                self.acknowledge(number)
            for replica in self.replicas:
                replica.show(10_000)
                replica.hear()
            self.operator.show(10_000)
            await self.pause()
            if self.pending:
                continue
            if not any(replica.calls for replica in self.replicas):
                return
            if not answering:
                for replica in self.replicas:
                    replica.matches.time_up()
        raise AssertionError("it never comes to rest")


def _server(name: str, acknowledge: str) -> Server:
    server = Server.named(name, NAMESPACE, spec=ServerSpec(pod={}, acknowledge=acknowledge))
    metadata = replace(
        server.metadata, uid=f"of-{name}", resource_version="10", labels={"fleet": "chess"}
    )
    return replace(
        server, metadata=metadata, status=replace(server.status, state="Ready", node="n1")
    )
