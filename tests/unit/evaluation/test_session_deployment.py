"""The controller of the case with a Deployment for each session: simple, and not careless."""

from __future__ import annotations

import asyncio
from typing import Any

from edgewise.bench.evaluation.cases.case import Stage
from edgewise.bench.evaluation.cases.session_deployment import POD, SESSION, SessionDeploymentCase
from edgewise.bench.evaluation.workloads.http import HttpWorkload
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.kube.errors import Conflict, ServerError
from edgewise.kube.kinds.core import (
    Pod,
    PodStatus,
    ReportedCondition,
    Service,
    ServicePort,
    ServiceSpec,
)
from edgewise.runtime.awaiting import Waiting
from edgewise.runtime.caching.cache import Cache


class Server:
    """It is too busy for the first call of each kind, and remembers the others."""

    def __init__(self) -> None:
        self.scaled: list[int] = []
        self.made: list[str] = []
        self.labelled: list[str] = []
        self._refused: set[str] = set()

    def _once(self, what: str, error: Exception) -> None:
        if what not in self._refused:
            self._refused.add(what)
            raise error

    async def create(self, made: Any) -> Any:
        if isinstance(made, Service):
            self._once("create", ServerError(500, "", "busy"))
            self.made.append(made.metadata.name)
        return made

    async def patch(self, kind: Any, name: str, _namespace: str, *, body: Any, **more: str) -> None:
        if more.get("subresource") == "scale":
            self.scaled.append(body["spec"]["replicas"])
            return
        self._once("patch", Conflict(409, "Conflict", "changed meanwhile"))
        self.labelled.append(name)


def pod(name: str, version: int, created: str, *, ready: bool = True) -> Pod:
    found = Pod.named(name, NAMESPACE)
    found.metadata.labels = {SESSION: "s1"}
    found.metadata.resource_version = str(version)
    found.metadata.creation_timestamp = created
    conditions = [ReportedCondition(type="Ready", status="True")] if ready else []
    found.status = PodStatus(pod_ip="10.0.0.9", phase="Running", conditions=conditions)
    return found


def service(name: str, version: int, port: int) -> Service:
    spec = ServiceSpec(
        selector={SESSION: "s1", POD: name}, ports=[ServicePort(port=80, node_port=port)]
    )
    found = Service.named(name, NAMESPACE, spec=spec)
    found.metadata.resource_version = str(version)
    return found


def case(server: Any, pods: Cache[Pod], services: Cache[Service]) -> SessionDeploymentCase:
    workload = HttpWorkload("image")
    stage = Stage(client=server, workload=workload, addresses=["10.0.0.1"], within=30)
    return SessionDeploymentCase(stage, Waiting(pods), Waiting(services))


async def test_a_pod_gets_its_service_although_a_call_fails() -> None:
    server, pods, services = Server(), Cache(Pod), Cache(Service)
    made = case(server, pods, services)
    pods.replace([pod("p1", 1, "2026-01-01T00:00:00Z")], "1")
    async with asyncio.timeout(30):
        while not server.labelled:  # noqa: ASYNC110 - what is waited for is in a list
            await asyncio.sleep(0.01)
    assert (set(server.made), server.labelled) == ({"p1"}, ["p1"])
    assert made is not None


async def test_each_join_is_one_replica_more() -> None:
    server = Server()
    made = case(server, Cache(Pod), Cache(Service))
    await made.create_session("s1")
    await asyncio.gather(*(made.join("s1", f"c{number}") for number in range(5)))
    assert server.scaled == [1, 2, 3, 4, 5]


async def test_a_client_tries_the_newest_pod_first_and_hears_of_another_at_once() -> None:
    server, pods, services = Server(), Cache(Pod), Cache(Service)
    made = case(server, pods, services)
    old, new = pod("old", 1, "2026-01-01T00:00:00Z"), pod("new", 2, "2026-01-01T00:00:09Z")
    starting = pod("next", 3, "2026-01-01T00:00:20Z", ready=False)
    pods.replace([old, new, starting], "3")
    services.replace([service("old", 1, 31), service("new", 2, 32), service("next", 3, 33)], "3")
    tried = []
    async with asyncio.timeout(30):
        async for url in made.urls("s1", "c1"):
            tried.append(url)
            if len(tried) == 2:
                ready = pod("next", 4, "2026-01-01T00:00:20Z")
                asyncio.get_running_loop().call_soon(pods.replace, [old, new, ready], "4")
            if len(tried) == 3:
                break
    assert tried == [f"http://10.0.0.1:{port}/" for port in (32, 31, 33)]
