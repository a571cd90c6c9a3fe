"""The chart's own pods on real nodes: they start, review, serve, and take over from each other."""

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import aiomqtt
import pytest

from edgewise.api.sessions import SessionTemplate
from edgewise.client.probe import Target, measure
from edgewise.exposure.publishing import PATIENCE
from edgewise.kube.errors import KubeError, ServerError
from edgewise.kube.kinds.core import Node, Pod, Service
from edgewise.kube.kinds.gateway_api import GATEWAY_KINDS
from edgewise.placement.reports_secret import read_access
from edgewise.testing.eventually import eventually
from tests.e2e.chart import gateway_api, removal
from tests.e2e.chart.conftest import (
    GATEWAY_HTTP,
    PUBLIC_HOST,
    SYSTEM,
    Installation,
    chart_values,
    helm_in,
)
from tests.e2e.sessions import workloads
from tests.e2e.sessions.workloads import HTTP, NAMESPACE, UDP, pods

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="module")]

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
PING_PORT = 17777
PORTS = [{"name": "http", "port": HTTP}, {"name": "game", "port": UDP, "protocol": "UDP"}]


async def test_all_pods_become_ready(installation: Installation) -> None:
    for component in ("operator", "gateway"):
        found = await installation.both_ready(component)
        assert len({pod.node_name for pod in found}) == 2, "replicas are spread over the nodes"


async def test_the_broker_counts_reports_and_every_node_answers_probes(
    installation: Installation,
) -> None:
    """With its own mosquitto, from the image; and ping agents at a port that is not the usual."""
    cluster, client = installation.cluster, installation.client
    values = {"reports_enabled": "true", "ping_enabled": "true", "ping_hostPort": PING_PORT}
    await helm_in(cluster, "upgrade", *chart_values(**values))

    def ready() -> None:
        found = [*installation.pods("reports"), *installation.pods("ping")]
        states = {pod.metadata.name: pod.ready for pod in found}
        assert list(states.values()) == [True] * 3, states

    await eventually(ready, within=90, every=0.1)
    access = await read_access(client, SYSTEM)
    assert access is not None
    assert access.ping == str(PING_PORT), "clients are told where to ask"
    (reports,) = installation.pods("reports")
    broker = (await client.get(Service, "edgewise-broker", SYSTEM)).spec.cluster_ip

    async def counted() -> None:
        async with aiomqtt.Client(broker, 1883, timeout=5) as user:
            await user.publish("edgewise/latency/here/default/nothing", b"{}")
        told = f"http://{reports.status.pod_ip}:8083/metrics"
        async with installation.rooms.http.get(told) as answer:
            text = await answer.text()
        (line,) = [each for each in text.splitlines() if 'verdict="unknown-placement"' in each]
        assert float(line.split()[-1]) > 0

    await eventually(counted, within=30, not_yet=(aiomqtt.MqttError,))
    nodes = (await client.list(Node)).items
    at = {
        node.metadata.name: f"{address.address}:{PING_PORT}"
        for node in nodes
        for address in node.status.addresses
        if address.type == "InternalIP"
    }

    async def answered() -> None:
        found = await measure(
            [
                Target(name=node, udp=where, http=f"http://{where}/ping")
                for node, where in at.items()
            ]
        )
        assert len(found) == 2
        assert [each for each in found.values() if each.median_ms is None] == []

    await eventually(answered, within=30)
    said = await installation.lines(reports)
    assert [line for line in said if "orbidden" in line or "Traceback" in line] == []
    await helm_in(cluster, "upgrade", *chart_values())


async def test_a_bad_session_is_refused_with_a_sentence(installation: Installation) -> None:
    async def refused() -> None:
        with pytest.raises(KubeError, match=r"templateRef.*there is no SessionTemplate nowhere"):
            await installation.client.apply(workloads.session("bad", "nowhere"))

    # Ready pods answer, but the API server may learn of the certificate a moment later.
    await eventually(refused, every=0.1)


async def test_a_session_answers_through_each_gateway_and_their_service(
    installation: Installation,
) -> None:
    await installation.rooms.make("both", pods(ports=PORTS))
    [ann] = await installation.rooms.join("both", "ann")
    endpoints, pod = ann.endpoints["server"], ann.pods["server"]
    ways = [(each.status.pod_ip, GATEWAY_HTTP) for each in installation.pods("gateway")]
    assert len(ways) == 2
    for host, port in [*ways, (await installation.service_address(), 80)]:
        # At once: ready means that every gateway which may be asked knows the way.
        assert await installation.pod_behind(endpoints, host, port) == pod


async def test_another_gateway_serves_while_one_is_replaced(installation: Installation) -> None:
    rooms = installation.rooms
    await rooms.make("replaced", pods(seats=2, ports=PORTS))
    [ann] = await rooms.join("replaced", "ann")
    one, other = installation.pods("gateway")
    await installation.kill(one)
    bob, known = await asyncio.gather(
        rooms.join("replaced", "bob"),
        installation.pod_behind(ann.endpoints["server"], other.status.pod_ip, GATEWAY_HTTP),
    )
    assert known == ann.pods["server"]
    assert not any(
        each.ready
        for each in installation.pods("gateway")
        if each.metadata.name != other.metadata.name
    ), "bob shares ann's pod, so he is there before the new gateway"
    new = next(
        each
        for each in await installation.both_ready("gateway")
        if each.metadata.name != other.metadata.name
    )
    # The new one knows who came before it.
    for has in (ann, *bob):
        way = (new.status.pod_ip, GATEWAY_HTTP)
        assert await installation.pod_behind(has.endpoints["server"], *way) == has.pods["server"]
    way = (await installation.service_address(), 80)
    assert await installation.pod_behind(ann.endpoints["server"], *way) == ann.pods["server"]


async def test_a_gateway_that_hangs_holds_up_joins_only_until_it_is_noticed(
    installation: Installation,
) -> None:
    rooms = installation.rooms
    await rooms.make("hanging", pods(seats=3, ports=PORTS))
    await rooms.join("hanging", "ann")
    hanging, other = installation.pods("gateway")
    with installation.frozen_agent(hanging):
        [bob] = await rooms.join("hanging", "bob")
        # Its Envoy does not know bob: had he been called ready while clients were led there,
        # one half of them would have found nobody.
        ready = {pod.metadata.name: pod.ready for pod in installation.pods("gateway")}
        assert ready == {hanging.metadata.name: False, other.metadata.name: True}
        way = (await installation.service_address(), 80)
        assert await installation.pod_behind(bob.endpoints["server"], *way) == bob.pods["server"]
        # Nobody waits any more.
        began = asyncio.get_running_loop().time()
        await rooms.join("hanging", "cleo")
        assert asyncio.get_running_loop().time() - began < PATIENCE
    await installation.both_ready("gateway")
    way = (hanging.status.pod_ip, GATEWAY_HTTP)
    assert await installation.pod_behind(bob.endpoints["server"], *way) == bob.pods["server"]


async def test_the_other_operator_takes_over(installation: Installation) -> None:
    rooms = installation.rooms
    await rooms.make("orphaned", pods(ports=PORTS))
    leader = await installation.leader()
    assert leader is not None
    await installation.kill(leader)

    async def joins() -> None:
        try:
            await rooms.say("orphaned", {"ann": True})
        except ServerError as error:
            # The API server may ask the killed one until it is off the list of those who review.
            if "failed calling webhook" not in str(error):
                raise
            raise AssertionError(str(error)) from error

    await eventually(joins, within=20)
    [ann] = await rooms.join("orphaned", "ann")
    successor = await installation.leader()
    assert successor is not None
    assert successor.metadata.name != leader.metadata.name
    way = (await installation.service_address(), 80)
    assert await installation.pod_behind(ann.endpoints["server"], *way) == ann.pods["server"]
    await installation.both_ready("operator")


async def test_the_gateway_api_is_missed_and_then_used(
    installation: Installation, tmp_path: Path
) -> None:
    rooms, client = installation.rooms, installation.client
    await rooms.make("routed", pods(ports=PORTS), exposure="GatewayAPI")
    await rooms.say("routed", {"ann": True})
    missed = await rooms.until("routed", "ann", lambda has: "install the CRDs" in has.message)
    assert not missed.ready
    for definition in gateway_api.definitions(tmp_path):
        await client.apply(definition)
    for pod in installation.pods("operator"):
        await installation.kill(pod)
    await rooms.until("routed", "ann", lambda has: "infra/edge has not accepted" in has.message)
    made = {kind: (await client.list(kind, NAMESPACE)).items for kind in GATEWAY_KINDS}
    counts = {kind.KIND.kind: len(found) for kind, found in made.items()}
    assert counts == {"HTTPRoute": 1, "UDPRoute": 1, "ListenerSet": 1, "TCPRoute": 0}
    for kind, found in made.items():
        for each in found:
            await gateway_api.accept(client, kind, each)
    ann = await rooms.until("routed", "ann", lambda has: has.ready)
    assert ann.endpoints["server"]["http"].startswith(f"http://{PUBLIC_HOST}/s/")
    assert ann.endpoints["server"]["game"].startswith(f"udp://{PUBLIC_HOST}:")
    await rooms.kill(ann.pods["server"])
    again = await rooms.recovered("routed", "ann", ann.pods["server"])
    assert again.endpoints == ann.endpoints
    await rooms.remove("routed")

    async def nothing_is_left() -> None:
        for kind in GATEWAY_KINDS:
            assert (await client.list(kind, NAMESPACE)).items == []

    await eventually(nothing_is_left, within=30, every=0.1)


async def test_the_programs_had_all_the_rights_they_needed(installation: Installation) -> None:
    said = await installation.logged()
    assert any("leads" in line for line in said), "nothing was read"
    assert [line for line in said if "orbidden" in line] == []
    assert [line for line in said if '"level":"error"' in line or "Traceback" in line] == []


async def test_a_removal_keeps_sessions_and_the_next_installation_takes_them_up(
    installation: Installation,
) -> None:
    cluster, client = installation.cluster, installation.client
    ann = await removal.seated(client, "kept", pods(ports=PORTS, warmPods=1))
    before = await client.get(Pod, ann.pods["server"], NAMESPACE)

    await helm_in(cluster, "uninstall")
    found = {each for each in await removal.left(client) if "edgewise" in each}
    assert not [each for each in found if each.startswith(("clusterrole", "validating"))], found
    template = await client.get(SessionTemplate, "kept", NAMESPACE)
    assert template.metadata.finalizers == []

    # At once, and somewhere else.
    await helm_in(cluster, "install", *chart_values(gateway_publicUrl="http://moved.test"))
    moved = await removal.ready(client, "kept", host="moved.test")
    after = await client.get(Pod, moved.pods["server"], NAMESPACE)
    assert after.metadata.uid == before.metadata.uid
    path = urlsplit(ann.endpoints["server"]["http"]).path
    assert moved.endpoints["server"]["http"] == f"http://moved.test{path}"
    way = f"http://{await installation.service_address()}{path}"

    async def answers() -> None:
        # The Service is as new as the gateways: kube-proxy leads to it in a moment.
        try:
            said = await installation.rooms.ask(way)
        except aiohttp.ClientError as error:
            raise AssertionError(str(error)) from error
        assert said["pod"] == after.metadata.name

    await eventually(answers, within=20, every=0.1)


async def test_a_removal_of_everything_leaves_nothing(installation: Installation) -> None:
    cluster, client = installation.cluster, installation.client
    await helm_in(cluster, "upgrade", *chart_values(crds_keep="false"))
    await helm_in(cluster, "uninstall")
    await removal.nothing_left(client)


if LONG:  # `make test` installs again in the test of what a removal keeps

    @pytest.mark.chaos
    async def test_after_it_the_chart_is_installed_again_and_what_it_kept_can_be_deleted(
        installation: Installation,
    ) -> None:
        cluster, client = installation.cluster, installation.client
        # In `make chaos` it is the only one here, and finds what its fixture installed.
        await helm_in(cluster, "uninstall", "--ignore-not-found")
        await helm_in(cluster, "install", *chart_values())
        await removal.seated(client, "again", pods(ports=PORTS, warmPods=1))
        await helm_in(cluster, "uninstall")
        await removal.delete_what_was_kept(client)

        async def only_keys() -> None:
            found = await removal.left(client)
            assert found == {
                f"secrets {SYSTEM}/edgewise-seat-key",
                f"secrets {SYSTEM}/edgewise-control-token",
            }

        await eventually(only_keys, within=60, every=0.2)
