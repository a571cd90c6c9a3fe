"""The demo's acts: clients choose a location, stream, lose a server, lose a whole cluster."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from edgewise.api.clusters import Cluster
from edgewise.api.sessions import Session
from edgewise.cli.demo.guest import Guest
from edgewise.cli.demo.objects import NAMESPACE, SESSION, TEMPLATE
from edgewise.cli.demo.stage import Row, Stage
from edgewise.client import Edgewise
from edgewise.kube.kinds.core import Pod
from edgewise.local import faults
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.installation import Installation

PATIENCE = 60.0  # seconds for anything that the hub has to do
LOOK_EVERY = 0.05


class DemoError(LocalError):
    """What the demo wanted to show did not happen."""


class Play:
    """`real`: there are processes behind the pods, so clients really stream."""

    def __init__(
        self,
        stage: Stage,
        installation: Installation,
        hub: LocalCluster,
        members: dict[str, LocalCluster],
        *,
        real: bool,
    ) -> None:
        # Between simulated clusters there is no distance to measure.
        self._wanted = None if real else next(iter(members))
        self._stage = stage
        self._hub = hub
        self._members = members
        self._real = real
        self._url, self._token = installation.urls[0], installation.token
        self._guests: dict[str, Guest] = {}
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._edgewise = await self._stack.enter_async_context(Edgewise(self._url, self._token))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for guest in list(self._guests.values()):
            await guest.crash()
        await self._stack.aclose()

    async def run(self) -> None:
        await self._until(self._all_locations_ready, "both locations ready")
        await self._until(self._template_known, "the template in the hub")
        await self._edgewise.create_session(TEMPLATE, SESSION)
        home = await self._three_come("ann", "bob", "cleo")
        await self._lost_and_back("ann")
        await self._loses_its_pod("bob")
        await self._leaves_and_is_followed("cleo", "dan")
        await self._loses_its_cluster(home)
        await self._clean_up()

    async def _three_come(self, *names: str) -> str:
        how = "measure, choose and join" if self._real else "join"
        self._stage.act(f"A session, and {len(names)} clients that {how}")
        with self._stage.table() as show:
            for name in names:
                self._guests[name] = Guest(name, self._wanted)
            showing = asyncio.create_task(self._keep_showing(show))
            try:
                async with asyncio.TaskGroup() as joining:
                    for name in names:
                        joining.create_task(self._guests[name].join(self._edgewise))
            finally:
                showing.cancel()
            show(self._rows())
        first = self._guests[names[0]].seat
        for location, found in sorted(first.measurements.items()):
            if found.median_ms is not None:
                self._stage.say(f"{location} is {found.median_ms:.0f} ms away")
        self._stage.say(f"why {first.location}: {first.why}")
        for name in names:
            self._stage.say(f"{name} is at {self._guests[name].url}")
        pods = [await self._speaking(name) for name in names]
        if self._real and len(set(pods)) != len(names):
            raise DemoError("two clients were given the same pod")
        locations = {self._guests[name].seat.location for name in names}
        if len(locations) != 1 or first.location is None:
            raise DemoError(f"clients at one place chose different locations: {locations}")
        return first.location

    async def _lost_and_back(self, name: str) -> None:
        self._stage.act(f"{name} loses the connection, and comes back in time")
        guest = self._guests[name]
        pod, url = await self._speaking(name), guest.url
        await guest.crash()
        lost = await self._edgewise.disconnect(SESSION, name)
        until = f", until {lost.until}" if lost.until else ""
        self._stage.say(f"disconnected: the pod is kept for {name}{until}")
        await guest.join(self._edgewise)
        if (await self._speaking(name), guest.url) != (pod, url):
            raise DemoError(f"{name} came back to another pod or address")
        self._stage.say(f"back after {guest.took:.2f} s: same pod, same address")

    async def _loses_its_pod(self, name: str) -> None:
        self._stage.act(f"The pod of {name} is killed")
        guest = self._guests[name]
        await self._speaking(name)
        cluster, url = self._members[guest.seat.location or ""], guest.url
        began = time.monotonic()
        async with cluster.client() as client:
            old = await self._pod_of(cluster, name)
            await client.delete(Pod, old, NAMESPACE, grace_seconds=0)

        async def replaced() -> bool:
            return await self._pod_of(cluster, name) not in ("", old) and await self._ready(name)

        await self._until(replaced, f"another pod for {name}")
        if self._real and await self._heard_other_than(name, old) == old:
            raise DemoError(f"{old} still speaks to {name}")
        if guest.url != url:
            raise DemoError(f"the address of {name} changed with the pod")
        took = time.monotonic() - began
        new = await self._pod_of(cluster, name)
        self._stage.say(f"{new} took over after {took:.1f} s, at {url}")

    async def _leaves_and_is_followed(self, name: str, successor: str) -> None:
        self._stage.act(f"{name} leaves, and {successor} gets the pod")
        guest = self._guests.pop(name)
        # Not measured again: on a busy machine another location may seem nearer for a moment.
        other = Guest(successor, guest.seat.location)
        cluster = self._members[guest.seat.location or ""]
        pod = await self._pod_of(cluster, name)
        await guest.leave()

        async def gone() -> bool:
            async with cluster.client() as client:
                return name not in (await client.get(Session, SESSION, NAMESPACE)).status.clients

        await self._until(gone, f"{name} gone")
        self._guests[successor] = other
        await other.join(self._edgewise)
        got = await self._pod_of(cluster, successor)
        if got != pod:
            where = f"{got or 'no pod there'}, in {other.seat.location}: {other.seat.why}"
            raise DemoError(f"{successor} did not get {pod}, but {where}")
        await self._speaking(successor)
        self._stage.say(f"{successor} was ready after {other.took:.2f} s, in {pod}")

    async def _loses_its_cluster(self, home: str) -> None:
        how = "cut off" if self._real else "stopped"
        self._stage.act(f"The whole cluster {home} is {how}, and its clients are moved")
        for guest in self._guests.values():
            guest.start_watch()
        began = time.monotonic()
        self._break(home)
        await self._until(lambda: self._health(home, "Lost"), f"{home} taken for lost")
        detected = time.monotonic()

        async def all_elsewhere() -> bool:
            seats = [guest.seat for guest in self._guests.values()]
            return all(seat.ready and seat.location not in (None, home) for seat in seats)

        await self._until(all_elsewhere, "all clients elsewhere")
        for name in self._guests:
            await self._speaking(name)
        back = time.monotonic() - detected
        self._stage.say(f"taken for lost after {detected - began:.1f} s of silence")
        for name, guest in self._guests.items():
            silent = f", silent for {guest.silence:.1f} s in all" if self._real else ""
            self._stage.say(f"{name} is in {guest.seat.location}, at {guest.url}{silent}")
        self._stage.say(f"all of them were back {back:.1f} s after that")
        self._mend(home)
        await self._until(lambda: self._nobody_in(home), f"nobody in {home}")
        await self._until(self._all_locations_ready, f"{home} to take clients again")
        self._stage.say(f"{home} is back, and knows that it has nobody any more")

    async def _clean_up(self) -> None:
        self._stage.act("The session is deleted, and all it made goes with it")
        began = time.monotonic()
        for guest in self._guests.values():
            await guest.crash()
        await self._edgewise.delete_session(SESSION)

        async def no_pod() -> bool:
            for cluster in self._members.values():
                async with cluster.client() as client:
                    if (await client.list(Pod, NAMESPACE)).items:
                        return False
            return True

        await self._until(no_pod, "no pod")
        self._stage.say(f"no pod is left after {time.monotonic() - began:.1f} s")

    # What is looked at --------------------------------------------------------------

    async def _all_locations_ready(self) -> bool:
        found = await self._edgewise.locations()
        return {each.name for each in found if each.state == "ready"} == set(self._members)

    async def _template_known(self) -> bool:
        return TEMPLATE in {each.name for each in await self._edgewise.templates()}

    async def _ready(self, name: str) -> bool:
        return (await self._edgewise.client(SESSION, name)).ready

    async def _pod_of(self, cluster: LocalCluster, name: str) -> str:
        async with cluster.client() as client:
            status = (await client.get(Session, SESSION, NAMESPACE)).status
        found = status.clients.get(name)
        return next(iter(found.pods.values()), "") if found is not None else ""

    async def _health(self, name: str, health: str) -> bool:
        async with self._hub.client() as client:
            return (await client.get(Cluster, name, NAMESPACE)).status.health == health

    async def _nobody_in(self, name: str) -> bool:
        async with self._members[name].client() as client:
            return not (await client.get(Session, SESSION, NAMESPACE)).spec.clients

    async def _speaking(self, name: str) -> str:
        """The pod that speaks to a client now; simulated ones say nothing."""
        return await self._heard_other_than(name, "") if self._real else ""

    async def _heard_other_than(self, name: str, pod: str) -> str:
        stream = self._guests[name].stream
        try:
            async with asyncio.timeout(PATIENCE):
                while (heard := await stream.until_heard()) == pod:
                    pass
        except TimeoutError:
            raise DemoError(f"{self._guests[name].url} is silent") from None
        return heard

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await holds():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {PATIENCE:.0f} s in vain for {what}")
            await asyncio.sleep(LOOK_EVERY)

    # What is done -------------------------------------------------------------------

    def _break(self, name: str) -> None:
        if self._real:
            faults.cut(self._members[name], None)
        else:
            faults.pause(self._members[name], "kube-apiserver")

    def _mend(self, name: str) -> None:
        if self._real:
            faults.heal(self._members[name], None)
        else:
            faults.resume(self._members[name], "kube-apiserver")

    async def _keep_showing(self, show: Callable[[list[Row]], None]) -> None:
        while True:
            show(self._rows())
            await asyncio.sleep(0.1)

    def _rows(self) -> list[Row]:
        return [guest.row() for guest in self._guests.values()]
