"""The ground of a run: the target on a chosen node, found from the place; and gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from edgewise.api.placement import LatencyPlacement
from edgewise.bench.placement.objects import (
    NAME,
    NAMESPACE,
    SERVICE,
    SERVICE_PORT,
    deployment,
    placement,
    pod_spec,
    service,
)
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.kube.objects import Key
from edgewise.local.clusters import LocalCluster
from edgewise.local.network.delay import Delay
from edgewise.local.places import command_in, environment_in, set_latency
from edgewise.runtime.awaiting import WaitedInVain, Waiting

_LOOK_EVERY = 0.02
_PATIENCE = 120.0

# Asks the Service until the pod that is named answers.
_UNTIL_IT_ANSWERS = """
import sys, time, urllib.request
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    try:
        with urllib.request.urlopen(f"http://{sys.argv[1]}/", timeout=5) as answer:
            if answer.headers["edgewise-pod"] == sys.argv[2]:
                sys.exit(0)
    except OSError:
        pass
    time.sleep(0.05)
sys.exit(1)
"""


class Ground:
    """One cluster with one place, on which one run after the other is made."""

    def __init__(
        self,
        client: Client,
        cluster: LocalCluster,
        place: str,
        image: str,
        waits: tuple[Waiting[Pod], Waiting[EndpointSlice], Waiting[LatencyPlacement]],
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.place = place
        self._image = image
        self.pods, self.slices, self.placements = waits

    @property
    def nodes(self) -> list[str]:
        return self.cluster.spec.node_names

    def move_place(self, delays: Mapping[str, Delay]) -> None:
        set_latency(self.cluster, {self.place: delays})

    async def prepare(self) -> None:
        """The namespace and the Service."""
        with contextlib.suppress(AlreadyExists):
            await self.client.create(Namespace.named(NAMESPACE))
        await self.client.apply(service())

    async def begin(self, node: str, **spec: Any) -> Pod:
        """A placement, and its target's one replica on `node`; no node keeps a mark of it.

        The placement is first: only then do all pods get the time to leave in peace.
        """
        empty = deployment(self._image)
        empty["spec"]["replicas"] = 0
        await self.client.apply(empty)
        await self.client.apply(placement(**spec))
        others = [other for other in self.nodes if other != node]
        await self._cordon(others, cordoned=True)
        try:
            body = {"spec": {"replicas": 1}}
            await self.client.patch(Deployment, NAME, NAMESPACE, body=body)
            await self._until(lambda: any(p.node_name for p in self.replicas()), "a replica bound")
        finally:
            # A search begins when the replica is ready, which takes a second more.
            await self._cordon(others, cordoned=False)
        await self._until(lambda: any(p.ready for p in self.replicas()), "a replica ready")
        (replica,) = self.replicas()
        await self._until_it_answers(replica.metadata.name)
        return replica

    def replicas(self) -> list[Pod]:
        return [pod for pod in self.pods.cache.all(NAMESPACE) if not pod.metadata.deleting]

    async def until_placement(self, holds: Any, what: str, within: float) -> LatencyPlacement:
        found = await self.placements.until(
            Key(NAMESPACE, NAME), lambda seen: seen is not None and holds(seen), what, within
        )
        if found is None:
            raise WaitedInVain(what)
        return found

    async def bare_pods(self, count: int, number: int) -> tuple[float, list[str]]:
        """Seconds from the first creation until all are ready, and where the scheduler put them."""
        names = [f"bare-{number}-{each}" for each in range(count)]
        began = time.monotonic()
        for name in names:
            pod = Pod.named(name, NAMESPACE, spec=pod_spec(self._image))
            await self.client.create(pod)
        seen = await asyncio.gather(
            *(
                self.pods.until(
                    Key(NAMESPACE, name),
                    lambda pod: pod is not None and pod.ready,
                    f"pod {name} ready",
                    _PATIENCE,
                )
                for name in names
            )
        )
        took = time.monotonic() - began
        where = [pod.node_name for pod in seen if pod is not None]
        await self._remove_pods()
        return took, where

    async def clean_up(self) -> None:
        for kind in (LatencyPlacement, Deployment):
            with contextlib.suppress(NotFound):
                await self.client.delete(kind, NAME, NAMESPACE)
        await self._until(
            lambda: self.placements.cache.find(NAME, NAMESPACE) is None, "the placement gone"
        )
        await self._remove_pods()

    async def _remove_pods(self) -> None:
        """At once, again and again: a controller that is on its way out may make one more."""
        deadline = time.monotonic() + _PATIENCE
        while pods := self.pods.cache.all(NAMESPACE):
            for pod in pods:
                with contextlib.suppress(NotFound):
                    await self.client.delete(Pod, pod.metadata.name, NAMESPACE, grace_seconds=0)
            if time.monotonic() > deadline:
                raise WaitedInVain(f"{len(pods)} pods do not go")
            await asyncio.sleep(0.2)

    async def _cordon(self, nodes: list[str], *, cordoned: bool) -> None:
        body = {"spec": {"unschedulable": True if cordoned else None}}
        await asyncio.gather(*(self.client.patch(Node, node, body=body) for node in nodes))

    async def _until(self, holds: Any, what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                raise WaitedInVain(f"{what} did not happen within {_PATIENCE:.0f} s")
            await asyncio.sleep(_LOOK_EVERY)

    async def _until_it_answers(self, pod: str) -> None:
        where = f"{SERVICE}:{SERVICE_PORT}"
        process = await asyncio.create_subprocess_exec(
            *command_in(self.cluster, self.place, ["python3", "-c", _UNTIL_IT_ANSWERS, where, pod]),
            env=environment_in(self.cluster, self.place),
        )
        if await process.wait() != 0:
            raise WaitedInVain(f"pod {pod} did not answer in place {self.place}")
