"""Placement on a real control plane with simulated nodes, a real broker, and users who report.

Operator and program for reports run in this process, as their commands run them. What a user
measures follows from the node of the pod that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiomqtt

from edgewise.agents.reports.broker import Broker
from edgewise.agents.reports.program import Options as ReportsOptions
from edgewise.agents.reports.program import run_reports
from edgewise.api.placement import COST_ANNOTATION, NAME_LABEL, LatencyPlacement
from edgewise.domain import Built, Context, Domain
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import Conflict, NotFound, ServerError
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Pod
from edgewise.local.clusters import LocalCluster
from edgewise.operator import Ending, Options, _run
from edgewise.placement.broker_url import BrokerUrl
from edgewise.placement.domain import PLACEMENT
from edgewise.placement.report_keys import report_key, signed
from edgewise.placement.reports_secret import NAMESPACE as SYSTEM
from edgewise.placement.reports_secret import ReportsAccess, read_access
from edgewise.runtime.caching.cache import controlling_owner
from edgewise.runtime.manager import Listen
from edgewise.runtime.webhooks.serving import Target
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port

PATIENCE = 90.0


class Users:
    """A client that measures every ready pod of a placement once in T_O."""

    def __init__(self, stage: Stage, name: str, rtts: dict[str, float], client: str) -> None:
        self._stage = stage
        self._name = name
        self.rtts = rtts
        self.client = client
        self.quiet = False
        self.probes = False
        self.period = 0.5
        self.key_lasts = 600.0

    async def run(self) -> None:
        stage = self._stage
        access = await stage.access()
        placement = await stage.placement(self._name)
        url = BrokerUrl.parse(access.broker)
        first_seen: dict[str, float] = {}
        while True:
            with contextlib.suppress(aiomqtt.MqttError):
                async with aiomqtt.Client(**url.client_options(), timeout=5) as broker:
                    while True:
                        if not self.quiet:
                            await self._report(broker, access, placement, first_seen)
                        await asyncio.sleep(self.period / 2)
            await asyncio.sleep(0.2)

    async def _report(
        self,
        broker: aiomqtt.Client,
        access: ReportsAccess,
        placement: LatencyPlacement,
        first_seen: dict[str, float],
    ) -> None:
        now = time.time()
        subjects = {}
        for pod in await self._stage.pods(self._name):
            if not pod.ready or pod.metadata.deleting or pod.node_name not in self.rtts:
                continue
            # A mean is sent T_O after the first answer.
            name = pod.metadata.name
            if now - first_seen.setdefault(name, now) >= self.period:
                subjects[name] = {"pod": name, "rtt": self.rtts[pod.node_name]}
        if self.probes:
            subjects |= {node: {"node": node, "rtt": rtt} for node, rtt in self.rtts.items()}
        for said in subjects.values():
            payload = report(access.key, placement, self.client, said, self.key_lasts)
            topic = f"edgewise/latency/test/{placement.metadata.namespace}/{self._name}"
            await broker.publish(topic, payload)


def report(
    secret: bytes,
    placement: LatencyPlacement,
    client: str,
    said: dict[str, Any],
    key_lasts: float = 600.0,
) -> bytes:
    expires = int(time.time() + key_lasts)
    key = report_key(secret, placement.metadata.uid, client, "", expires)
    body = {"app": "test", "timestamp": time.time(), "client": client, "expires": expires, **said}
    return signed(json.dumps(body, separators=(",", ":")).encode(), key)


class Stage:
    def __init__(self, cluster: LocalCluster, client: Client, namespace: str) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self.nodes = cluster.spec.simulated_names or cluster.spec.node_names
        self.system = SYSTEM  # where the operator and the program for reports find each other
        self.webhook_port = free_port()
        self.least_ready = 10**6
        self.most_pods = 0

    # Programs -----------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def reports(self, broker: Broker | None = None) -> AsyncIterator[None]:
        """With a broker of its own, or that one."""
        ended = asyncio.Event()
        access = load_access(self.cluster.kubeconfig)
        options = ReportsOptions(namespace=self.system)
        if broker is not None:
            options = ReportsOptions(
                namespace=self.system,
                broker=BrokerUrl(host="127.0.0.1", port=broker.private),
                public_broker=f"mqtt://127.0.0.1:{broker.public}",
            )
        before = await self._reports_at()
        running = asyncio.create_task(run_reports(access, options, ended), name="reports")
        try:

            async def announced() -> bool:
                if running.done():
                    await running
                # One of before has left its address there.
                return await self._reports_at() not in ("", before)

            await eventually(announced, within=30)
            yield
        finally:
            ended.set()
            await asyncio.wait_for(running, 30)

    async def _reports_at(self) -> str:
        try:
            known = await read_access(self.client, self.system)
        except NotFound:
            return ""
        return known.url if known is not None else ""

    @contextlib.asynccontextmanager
    async def operator(
        self, *, webhooks: bool = True, election: bool = False, client: Client | None = None
    ) -> AsyncIterator[None]:
        built = asyncio.Event()
        endings: list[Ending] = []

        def build(context: Context) -> Built:
            built.set()
            return PLACEMENT.build(context)

        domain: Domain = PLACEMENT.__class__(
            name=PLACEMENT.name, kinds=PLACEMENT.kinds, build=build
        )
        options = Options(
            listen=Listen(port=free_port()),
            leader_election=election,
            webhooks=Target(url=f"https://{self.cluster.host_address}:{self.webhook_port}")
            if webhooks
            else None,
            webhook_port=self.webhook_port,
        )
        used = client or self.client

        async def run() -> None:
            endings.append(Ending())  # it ends the task that makes it
            await _run(used, options, (domain,), endings[0])

        running = asyncio.create_task(run(), name="operator")
        try:
            await eventually(lambda: built.is_set() or running.done(), within=30)
            yield
            assert not running.done(), running
        finally:
            endings[0].begin()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(running, 40)

    @contextlib.asynccontextmanager
    async def users(
        self, name: str, rtts: dict[str, float], client: str = "ann"
    ) -> AsyncIterator[Users]:
        user = Users(self, name, rtts, client)
        running = asyncio.create_task(user.run(), name="user")
        try:
            yield user
            assert not running.done(), running
        finally:
            # A broker that fails while it is left hides that the user is to end.
            while not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=2)

    @contextlib.asynccontextmanager
    async def watching(self, name: str) -> AsyncIterator[None]:
        """Notes how few replicas were ready, and how many pods there were."""

        async def look() -> None:
            while True:
                pods = await self.pods(name)
                placement = await self.placement(name)
                mine = placement.metadata.uid
                ready = [
                    pod
                    for pod in pods
                    if pod.ready and not pod.metadata.deleting and controlling_owner(pod) != mine
                ]
                self.least_ready = min(self.least_ready, len(ready))
                self.most_pods = max(self.most_pods, len(pods))
                await asyncio.sleep(0.05)

        looking = asyncio.create_task(look())
        try:
            yield
            assert not looking.done(), looking
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    # Objects ------------------------------------------------------------------------

    async def deploy(self, name: str, *, replicas: int = 1, on: str = "", **spec: Any) -> None:
        """A Deployment; with `on`, its first pods start there, and later ones anywhere."""
        if on:
            await self.cordon(*(node for node in self.nodes if node != on))
        await self.client.apply(deployment(self.namespace, name, replicas, **spec))
        await self.until_ready(name, replicas)
        if on:
            await self.uncordon()

    async def until_ready(self, name: str, replicas: int) -> None:
        async def ready() -> bool:
            found = await self.client.get(Deployment, name, self.namespace)
            return found.status.ready_replicas == found.status.replicas == replicas

        await eventually(ready, within=PATIENCE)

    async def place(self, name: str, **spec: Any) -> None:
        values = {
            "observation": "500ms",
            "maxMovesPerHour": 0,
            "drainSeconds": 0,
            "target": {"name": name},
            **spec,
        }
        wanted = {
            "apiVersion": "placement.edgewise.dev/v1alpha1",
            "kind": "LatencyPlacement",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": values,
        }

        async def put() -> None:
            await self.client.apply(wanted, field_manager="test")

        # An operator that has just begun may not answer for its webhooks yet.
        await eventually(put, within=30, not_yet=(ServerError,))

    async def cordon(self, *nodes: str, on: bool = True) -> None:
        from edgewise.kube.kinds.core import Node

        for node in nodes:
            body = {"spec": {"unschedulable": on or None}}
            await self.client.patch(Node, node, body=body)

    async def uncordon(self) -> None:
        await self.cordon(*self.nodes, on=False)

    async def access(self) -> ReportsAccess:
        found = await read_access(self.client, self.system)
        assert found is not None
        return found

    async def placement(self, name: str) -> LatencyPlacement:
        return await self.client.get(LatencyPlacement, name, self.namespace)

    async def pods(self, name: str) -> list[Pod]:
        return (await self.client.list(Pod, self.namespace, labels=f"{NAME_LABEL}={name}")).items

    async def replicas(self, name: str) -> list[Pod]:
        placement = await self.placement(name)
        return [
            pod
            for pod in await self.pods(name)
            if not pod.metadata.deleting and controlling_owner(pod) != placement.metadata.uid
        ]

    async def held(self, name: str) -> list[str]:
        return sorted(pod.node_name for pod in await self.replicas(name))

    async def until(
        self,
        name: str,
        holds: Callable[[LatencyPlacement], bool],
        within: float = PATIENCE,
    ) -> LatencyPlacement:
        found = await self.placement(name)
        deadline = time.monotonic() + within
        while not holds(found):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name}: {json.dumps(_shown(found), indent=1)}")
            await asyncio.sleep(0.05)
            found = await self.placement(name)
        return found

    async def ended(self, name: str, number: int = 1, within: float = PATIENCE) -> LatencyPlacement:
        return await self.until(
            name,
            lambda found: (
                bool(found.status.search.ended_at) and found.status.search.number >= number
            ),
            within,
        )

    async def nothing_is_left(self, name: str) -> None:
        """Neither a sentinel nor a deletion cost of ours."""

        async def clean() -> None:
            placement = await self.placement(name)
            for pod in await self.pods(name):
                if not pod.metadata.deleting:
                    assert controlling_owner(pod) != placement.metadata.uid, pod.metadata.name
                    assert COST_ANNOTATION not in pod.metadata.annotations

        await eventually(clean, within=60)

    async def remove(self, name: str) -> None:
        for kind in (LatencyPlacement, Deployment):
            with contextlib.suppress(NotFound, Conflict):
                await self.client.delete(kind, name, self.namespace)


def _shown(placement: LatencyPlacement) -> Any:
    import msgspec

    return msgspec.to_builtins(placement.status)


def deployment(namespace: str, name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": name, NAME_LABEL: name}
    pod = {
        "containers": [
            {
                "name": "web",
                "image": "web",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }
        ],
        "terminationGracePeriodSeconds": 1,
        **spec.pop("pod", {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }
