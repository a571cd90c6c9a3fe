"""`edgewise demo placement`: a web service that follows its user, on real nodes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import typer

from edgewise.api.placement import LatencyPlacement
from edgewise.bench.placement.figures import Answers
from edgewise.bench.placement.objects import (
    NAME,
    SERVICE_PORT,
    deployment,
    placement,
    service,
    service_name,
)
from edgewise.bench.placement.probing import Prober, probing
from edgewise.bench.placement.reporting import Reporting
from edgewise.bench.placement.stage import placement_stage
from edgewise.bench.placement.timeline import ENDED
from edgewise.cli.demo.own_cluster import on_own_cluster
from edgewise.cli.demo.play import DemoError
from edgewise.cli.demo.stage import Stage
from edgewise.cli.progress import shown_progress
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.objects import Key
from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.local.network.delay import Delay
from edgewise.placement.reports_secret import ReportsAccess
from edgewise.runtime.awaiting import Waiting, watching

NAMESPACE = "demo"
CLUSTER = "placement"
# Milliseconds one way from each place to each node.
PLACES = {"rome": (5.0, 25.0, 60.0), "oslo": (60.0, 25.0, 5.0)}
THRESHOLD_MS = 80.0
PATIENCE = 60.0

app = typer.Typer()


@app.command()
def demo() -> None:
    """Start a cluster and two places, and show a service move to where its user is."""
    on_own_cluster(CLUSTER, show)


async def show(name: str) -> None:
    stage = Stage(acts=5)
    print("Edgewise: a service runs on the node that its users measure as nearest.\n")
    cluster = await start(stage, name)
    stage.act("Operator, MQTT broker, and the program that counts reports")
    async with (
        placement_stage(cluster) as (client, access),
        watching(client, Pod, LatencyPlacement) as (pods, placements),
    ):
        stage.say("running; users publish what they measure, signed with a key of a few minutes")
        play = Play(stage, cluster, client, access, pods, placements)
        await play.run()
    print(f"\nAll of it worked, in {stage.elapsed:.0f} s.")
    print(AFTERWARDS)


AFTERWARDS = """
Try next:
  docs/tutorial/follow-your-users.md         a service of your own that moves, step by step
  .venv/bin/edgewise bench placement --nodes 4 --sentinels 1,2 --repeat 1 --part search
  docs/local/clusters.md                     places of your own, and how to move them"""


async def start(stage: Stage, name: str) -> LocalCluster:
    stage.act("A cluster of three real nodes, and two places where users may be")
    nodes = [f"{name}-{number}" for number in (1, 2, 3)]
    spec = LocalClusterSpec(
        name=name,
        nodes=len(nodes),
        places={
            place: dict(zip(nodes, map(Delay, away), strict=True)) for place, away in PLACES.items()
        },
    )
    with shown_progress() as progress:
        cluster = await clusters.bring_up(spec, tell=progress)
    for place, away in PLACES.items():
        far = ", ".join(f"{2 * ms:g} ms to {node}" for node, ms in zip(nodes, away, strict=True))
        stage.say(f"{place}: {far} and back")
    return cluster


class Play:
    def __init__(
        self,
        stage: Stage,
        cluster: LocalCluster,
        client: Client,
        access: ReportsAccess,
        pods: Waiting[Pod],
        placements: Waiting[LatencyPlacement],
    ) -> None:
        self._stage = stage
        self._cluster = cluster
        self._client = client
        self._reporting = Reporting(client, access, cluster, NAMESPACE)
        self._pods = pods
        self._placements = placements

    async def run(self) -> None:
        await self._begin()
        first = await self._search()
        await self._follow(first)

    async def _begin(self) -> None:
        self._stage.act("A web service, where kube-scheduler puts it, and its user in rome")
        await self._client.create(Namespace.named(NAMESPACE))
        await self._client.apply(service(namespace=NAMESPACE))
        await self._client.apply(deployment(PYTHON_IMAGE, namespace=NAMESPACE, drain=5))
        pod = await self._serving()
        self._stage.say(f"it runs on {pod.node_name}, {self._round_trip('rome', pod)} from rome")

    async def _search(self) -> str:
        self._stage.act("A LatencyPlacement: another pod is tried on each node, and the best stays")
        spec: dict[str, Any] = {"sentinels": 1, "threshold": {"p95Ms": THRESHOLD_MS}}
        await self._client.apply(placement(namespace=NAMESPACE, **spec))
        async with self._user("rome") as (new, kept):
            began = time.monotonic()
            seen = await self._until_ended(1)
            took = time.monotonic() - began
            node = await self._arrived("rome")
            asked, failed = counted(await asyncio.gather(new.stop(), kept.stop()))
        self._stage.say(f"after {took:.1f} s: {seen.status.message}; measured: {measured(seen)}")
        self._stage.say(f"the user asked {asked} times meanwhile, and {failed} requests failed")
        if failed:
            raise DemoError(f"{failed} requests failed while the service moved to {node}")
        return node

    async def _follow(self, first: str) -> None:
        self._stage.act("The user goes to oslo, and the service follows")
        before = self._search_number()
        began = time.monotonic()
        async with self._user("oslo") as (new, kept):
            seen = await self._until_ended(before + 1)
            took = time.monotonic() - began
            node = await self._arrived("oslo")
            asked, failed = counted(await asyncio.gather(new.stop(), kept.stop()))
        if node == first:
            raise DemoError(f"the service did not follow: it is still on {node}")
        self._stage.say(f"after {took:.1f} s: {seen.status.message}; measured: {measured(seen)}")
        self._stage.say(f"the user asked {asked} times meanwhile, and {failed} requests failed")
        if failed:
            raise DemoError(f"{failed} requests failed while the service moved to {node}")

    @contextlib.asynccontextmanager
    async def _user(self, place: str) -> AsyncIterator[tuple[Prober, Prober]]:
        """Asks the service from there, and reports what it measures."""
        where = service_name(NAMESPACE)
        async with (
            probing(self._cluster, place, where, SERVICE_PORT) as probers,
            self._reporting.at(place),
        ):
            yield probers

    def _search_number(self) -> int:
        seen = self._placements.cache.find(NAME, NAMESPACE)
        return seen.status.search.number if seen is not None else 0

    async def _until_ended(self, search: int) -> LatencyPlacement:
        def ended(seen: LatencyPlacement | None) -> bool:
            return (
                seen is not None
                and seen.status.search.number >= search
                and seen.status.phase in ENDED
            )

        what = f"search {search} of {NAMESPACE}/{NAME}"
        seen = await self._placements.until(Key(NAMESPACE, NAME), ended, what, PATIENCE)
        if seen is None:
            raise DemoError(f"{what} did not end")
        return seen

    async def _arrived(self, place: str) -> str:
        """Where it is; that is the nearest node, or this is a failure."""
        away = PLACES[place]
        nearest = self._cluster.spec.node_names[away.index(min(away))]
        pod = await self._serving()
        if pod.node_name != nearest:
            raise DemoError(
                f"the service is on {pod.node_name}, and {nearest} is nearer to {place}"
            )
        return nearest

    async def _serving(self) -> Pod:
        """The one replica, once there is only one that stays."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            staying = [p for p in self._pods.cache.all(NAMESPACE) if not p.metadata.deleting]
            if len(staying) == 1 and staying[0].ready:
                return staying[0]
            await asyncio.sleep(0.05)
        raise DemoError(f"after {PATIENCE:.0f} s there is not one pod that serves")

    def _round_trip(self, place: str, pod: Pod) -> str:
        number = self._cluster.spec.node_names.index(pod.node_name)
        return f"{2 * PLACES[place][number]:g} ms"


def measured(seen: LatencyPlacement) -> str:
    ranking = sorted(seen.status.ranking, key=lambda each: each.rtt_ms)
    return ", ".join(f"{each.node} {each.rtt_ms:.0f} ms" for each in ranking)


def counted(answers: tuple[Answers, Answers]) -> tuple[int, int]:
    return sum(a.requests for a in answers), sum(len(a.failures) for a in answers)
