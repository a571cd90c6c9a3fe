"""The controllers as they run in the operator, on a real API server with simulated nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.apps import Deployment, Job, StatefulSet
from edgewise.kube.kinds.core import ConfigMap, Pod, Service
from edgewise.kube.kinds.events import Event
from edgewise.runtime.leading.leadership import Timing
from edgewise.runtime.manager import Election
from edgewise.sessions import names
from edgewise.sessions.route_source import routes_of
from edgewise.testing.eventually import eventually
from edgewise.workloads.children import CHILD
from tests.integration.conftest import ApiServer
from tests.integration.sessions.stage import Stage, pod_template

UDP = {"name": "game", "port": 7777, "protocol": "UDP"}
HTTP = {"name": "http", "port": 8080}


async def test_a_session_from_beginning_to_end(stage: Stage) -> None:
    await stage.template(
        podTemplates=[pod_template(maxClients=2, ports=[HTTP, UDP]), pod_template("chat")],
        reutilizeTimeoutSeconds=1,
        timeoutSeconds=60,
    )
    async with stage.operator():
        await stage.session("s", "ann", "bob", "cat")
        await stage.ready("ann", "bob", "cat")
        assert len(await stage.pods()) == 5
        before = await stage.record("ann")

        await stage.clients(ann=False)
        await eventually(lambda: _phase(stage, "ann", "Disconnected"))
        await stage.clients(ann=True)
        await eventually(lambda: _phase(stage, "ann", "Ready"))
        assert await stage.record("ann") == before

        await stage.delete(Pod, before.pods["main"])
        await eventually(lambda: _moved(stage, "ann", before.pods["main"]))
        await stage.ready("ann", "bob", "cat")
        assert (await stage.record("ann")).endpoints == before.endpoints

        ports = [r.listen_port for r in routes_of(await stage.get()) if r.listen_port]
        assert len(set(ports)) == len(ports) == 3
        await stage.clients(ann=None, bob=None, cat=None)
        await stage.nothing_left()


async def _phase(stage: Stage, client: str, phase: str) -> bool:
    return (await stage.record(client)).phase == phase


async def _moved(stage: Stage, client: str, pod: str) -> bool:
    record = await stage.record(client)
    return record.ready and record.pods.get("main") not in (None, pod)


async def test_warm_pods_and_pods_of_other_sessions_are_taken(stage: Stage) -> None:
    await stage.template(
        podTemplates=[pod_template(warmPods=2)], reuse="Template", reutilizeTimeoutSeconds=60
    )
    async with stage.operator():
        await eventually(lambda: _number_of_pods(stage, 2))
        warm = await stage.pods()
        await stage.session("s", "ann")
        await stage.ready("ann")
        taken = (await stage.record("ann")).pods["main"]
        assert taken in warm
        await eventually(lambda: _number_of_pods(stage, 3))
        await stage.delete(Session, "s")
        await stage.session("t", "bob")
        await stage.ready("bob", session="t")
        assert (await stage.record("bob", "t")).pods["main"] in warm
        await stage.delete(Session, "t")
        await stage.delete(SessionTemplate, "room")
        await stage.nothing_left()


async def _number_of_pods(stage: Stage, number: int) -> bool:
    return len(await stage.pods()) == number


async def test_a_template_in_use_waits_and_says_why(stage: Stage) -> None:
    await stage.template()
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")
        await stage.delete(SessionTemplate, "room")

        async def says_why() -> None:
            template = await stage.client.get(SessionTemplate, "room", stage.namespace)
            messages = {each.type: each.message for each in template.status.conditions}
            assert messages.get("InUse") == "it is deleted when these are gone: s"

        await eventually(says_why)
        await stage.delete(Session, "s")
        await stage.nothing_left()

        async def gone() -> bool:
            try:
                await stage.client.get(SessionTemplate, "room", stage.namespace)
            except NotFound:
                return True
            return False

        await eventually(gone, within=40)


BOUND: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "look": (ConfigMap, {"kind": "ConfigMap", "data": {"colour": "blue"}}),
    "files": (
        Deployment,
        {
            "kind": "Deployment",
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "files"}},
                "template": {
                    "metadata": {"labels": {"app": "files"}},
                    "spec": {"containers": [{"name": "web", "image": "web"}]},
                },
            },
        },
    ),
    "state": (
        StatefulSet,
        {
            "kind": "StatefulSet",
            "spec": {
                "serviceName": "state",
                "selector": {"matchLabels": {"app": "state"}},
                "template": {
                    "metadata": {"labels": {"app": "state"}},
                    "spec": {"containers": [{"name": "db", "image": "db"}]},
                },
            },
        },
    ),
    "web": (
        Service,
        {"kind": "Service", "spec": {"selector": {"app": "files"}, "ports": [{"port": 80}]}},
    ),
    "setup": (
        Job,
        {
            "kind": "Job",
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "setup"}],
                    }
                }
            },
        },
    ),
}


@pytest.mark.parametrize("scope", ["Session", "Template"])
async def test_bound_resources_come_and_go(scope: str, stage: Stage) -> None:
    resources = [
        {"name": name, "scope": scope, "manifest": manifest}
        for name, (_, manifest) in BOUND.items()
    ]
    await stage.template(resources=resources)
    owner = "s" if scope == "Session" else "room"
    prefix = "s-" if scope == "Session" else "room---"
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")

        async def all_there() -> None:
            for name, (kind, _) in BOUND.items():
                found = await stage.client.get(kind, f"{prefix}{name}", stage.namespace)
                assert found.metadata.owner_references[0].name == owner

        await eventually(all_there, not_yet=(NotFound,))
        deployment = await stage.client.get(Deployment, f"{prefix}files", stage.namespace)
        mark = {"app": "files", names.BOUND: names.bound_label(owner, scope)}
        assert deployment.spec["selector"]["matchLabels"] == mark
        web = await stage.client.get(Service, f"{prefix}web", stage.namespace)
        assert web.spec.selector == mark
        version = deployment.metadata.resource_version
        await stage.clients(bob=True)
        await stage.ready("ann", "bob")
        deployment = await stage.client.get(Deployment, f"{prefix}files", stage.namespace)
        assert deployment.metadata.resource_version == version, "it was applied without need"

        if scope == "Session":
            await stage.delete(Session, "s")
        else:
            await stage.clients(ann=None, bob=None)

        async def all_gone() -> None:
            for kind, _ in BOUND.values():
                found = await stage.client.list(kind, stage.namespace, labels=CHILD)
                left = [each for each in found.items if not each.metadata.deleting]
                assert not left

        await eventually(all_gone)


@pytest.mark.parametrize("replicas", [1, "many"], ids=["lacks a field", "of a wrong type"])
async def test_a_resource_that_the_api_server_refuses_is_reported(
    stage: Stage, replicas: object
) -> None:
    manifest = {"kind": "Deployment", "spec": {"replicas": replicas}}
    await stage.template(resources=[{"name": "files", "manifest": manifest}])
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")

        async def says_so() -> None:
            found = {each.type: each for each in (await stage.get()).status.conditions}
            assert found["Degraded"].status == "True"
            assert found["Degraded"].reason == "ResourceRefused"
            assert "s-files" in found["Degraded"].message

        await eventually(says_so, not_yet=(KeyError,))


async def test_an_object_that_somebody_else_made_is_left_alone(stage: Stage) -> None:
    theirs = ConfigMap.named("s-look", stage.namespace)
    theirs.data = {"colour": "theirs"}
    await stage.client.create(theirs, field_manager="somebody")
    resources = [{"name": "look", "manifest": {"kind": "ConfigMap", "data": {"colour": "blue"}}}]
    await stage.template(resources=resources)
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")

        async def says_so() -> None:
            found = {each.type: each for each in (await stage.get()).status.conditions}
            assert "s-look is there already" in found["Degraded"].message

        await eventually(says_so, not_yet=(KeyError,))
        await stage.delete(Session, "s")
        await stage.nothing_left()
    found = await stage.client.get(ConfigMap, "s-look", stage.namespace)
    assert found.data == {"colour": "theirs"}


BROKEN = {
    "a bad name": {"name": "Bad Name", "image": "x"},
    "a text that should be a list": {"name": "main", "image": "x", "command": "sleep 5"},
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_pod_that_the_api_server_refuses_is_reported(stage: Stage, what: str) -> None:
    broken = pod_template(template={"spec": {"containers": [BROKEN[what]]}})
    await stage.template(podTemplates=[broken])
    async with stage.operator():
        await stage.session("s", "ann")

        async def says_so() -> None:
            found = {each.type: each for each in (await stage.get()).status.conditions}
            assert found["Degraded"].reason in ("PodsRefused", "PodsFailing")

        await eventually(says_so, not_yet=(KeyError,))
        assert not await stage.pods()
        await stage.template(podTemplates=[pod_template()])
        await stage.ready("ann", within=30)


EXPOSURES = {
    "NodePort": "http://203.0.113.9:",
    "HostPort": "http://192.0.2.1:",
    "None": "http://10.9.",
}


@pytest.mark.parametrize("exposure", EXPOSURES)
async def test_other_ways_to_a_pod(exposure: str, stage: Stage) -> None:
    stage.site = type(stage.site)(seat_key=stage.site.seat_key, node_host="203.0.113.9")
    await stage.template(exposure=exposure, podTemplates=[pod_template(ports=[HTTP, UDP])])
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")
        before = await stage.record("ann")
        assert before.endpoints["main"]["http"].startswith(EXPOSURES[exposure])
        assert before.endpoints["main"]["game"].startswith("udp://")
        assert not stage.gateways.told
        await stage.delete(Pod, before.pods["main"])
        await eventually(lambda: _moved(stage, "ann", before.pods["main"]))
        after = await stage.record("ann")
        if exposure == "NodePort":
            assert after.endpoints == before.endpoints
        await stage.delete(Session, "s")
        await stage.nothing_left()

        async def no_services() -> bool:
            return not (await stage.client.list(Service, stage.namespace)).items

        await eventually(no_services)


async def test_a_load_balancer_is_waited_for(stage: Stage) -> None:
    await stage.template(exposure="LoadBalancer")
    async with stage.operator():
        await stage.session("s", "ann")

        async def made() -> str:
            found = (await stage.client.list(Service, stage.namespace)).items
            return found[0].metadata.name if found else ""

        await eventually(made)
        assert not (await stage.record("ann")).ready
        ingress = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
        await stage.client.patch(
            Service, await made(), stage.namespace, body={"status": ingress}, subresource="status"
        )
        await stage.ready("ann")
        assert (await stage.record("ann")).endpoints == {
            "main": {"http": "http://198.51.100.7:8080/"}
        }


async def test_a_seat_has_a_name_inside_the_cluster_where_the_template_asks(stage: Stage) -> None:
    await stage.template(podTemplates=[pod_template(service=True)])
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")

        async def leads_to_the_pod() -> None:
            (service,) = (await stage.client.list(Service, stage.namespace)).items
            assert service.spec.selector == {names.POD: (await stage.record("ann")).pods["main"]}

        await eventually(leads_to_the_pod, not_yet=(ValueError,))
        await stage.delete(Pod, (await stage.record("ann")).pods["main"])
        await eventually(leads_to_the_pod, not_yet=(ValueError, KeyError))


async def test_an_inline_session_needs_no_template(stage: Stage) -> None:
    async with stage.operator():
        await stage.session("s", "ann", podTemplates=[pod_template()])
        await stage.ready("ann")
        await stage.delete(Session, "s")
        await stage.nothing_left()


async def test_tokens_are_shown_as_hashes_only(stage: Stage) -> None:
    await stage.template(seatTokens=True)
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")
        (route,) = routes_of(await stage.get())
        assert len(route.token_sha256) == 64
        assert stage.gateways.told[0][1] == [route]


async def test_what_went_wrong_is_told_as_an_event(stage: Stage) -> None:
    await stage.template()
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")
        pod = (await stage.record("ann")).pods["main"]
        await stage.delete(Pod, pod)

        async def told() -> bool:
            found = (await stage.client.list(Event, stage.namespace)).items
            return any(each.reason == "Recovering" and pod in each.note for each in found)

        await eventually(told)
        assert stage.metrics.recoveries._value.get() == 1


async def test_two_operators_at_once(stage: Stage) -> None:
    """Without an election: neither knows of the other."""
    await stage.template(
        podTemplates=[pod_template(maxClients=2, ports=[HTTP, UDP], warmPods=2)],
        reuse="Template",
        reutilizeTimeoutSeconds=2,
    )
    everybody = [f"c{number}" for number in range(8)]
    async with stage.operator(), stage.operator():
        for name in ("s", "t"):
            await stage.session(name, *everybody)
        for name in ("s", "t"):
            await stage.ready(*everybody, session=name, within=30)
        for number in range(0, 8, 2):
            await stage.clients("s", **{f"c{number}": None})
            await stage.clients("t", **{f"d{number}": True})
        for pod in sorted(await stage.pods())[:3]:
            await stage.delete(Pod, pod)
        left = [f"c{number}" for number in range(1, 8, 2)]
        await stage.ready(*left, within=30)
        await stage.ready(*everybody, *(f"d{n}" for n in range(0, 8, 2)), session="t", within=30)
        for name in ("s", "t"):
            status = (await stage.get(name)).status
            seats = [pod for record in status.clients.values() for pod in record.pods.values()]
            assert all(seats.count(pod) <= 2 for pod in seats)
        for name in ("s", "t"):
            await stage.delete(Session, name)
        await stage.delete(SessionTemplate, "room")
        await stage.nothing_left(within=40)


async def test_another_operator_takes_over(stage: Stage) -> None:
    timing = Timing(lease=3, stop_after=2.0, renew_every=0.5, poll_every=0.2)
    election = Election("sessions-test", stage.namespace, timing=timing)
    await stage.template(timeoutSeconds=5)
    async with stage.operator(election=election) as first:
        second = stage.manager(election=election)
        running = asyncio.create_task(second.run(signals=False))
        try:
            await stage.session("s", "ann", "bob")
            await stage.ready("ann", "bob")
            assert not second.acting
            await stage.clients(ann=False)
            await eventually(lambda: _phase(stage, "ann", "Disconnected"))
            first.stop()
            await eventually(lambda: second.acting, within=10)
            await eventually(lambda: _phase(stage, "ann", "Expired"), within=15)
            await stage.clients(cat=True)
            await stage.ready("bob", "cat")
        finally:
            second.stop()
            await asyncio.wait_for(running, 30)


async def test_sessions_survive_a_restart_of_the_api_server(
    stage: Stage, api_server: ApiServer
) -> None:
    await stage.template(podTemplates=[pod_template(ports=[HTTP, UDP])])
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")
        before = await stage.record("ann")
        await asyncio.to_thread(api_server.restart_api_server, kill=True)
        await stage.clients(bob=True)
        await stage.ready("ann", "bob", within=30)
        assert await stage.record("ann") == before
        assert await stage.count(PortClaim) == 2
