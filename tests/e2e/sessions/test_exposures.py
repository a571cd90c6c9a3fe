"""The other ways to a seat, with real traffic: where its address leads, and that it stays."""

from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.kube.kinds.core import Node, Service
from edgewise.sessions import names
from edgewise.testing.eventually import eventually
from tests.e2e.sessions.conftest import PATIENCE, Rooms
from tests.e2e.sessions.traffic import ask_by_udp
from tests.e2e.sessions.workloads import HTTP, NAMESPACE, UDP, pods

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]

PORTS = [{"name": "http", "port": HTTP}, {"name": "game", "port": UDP, "protocol": "UDP"}]


def place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


async def seated(rooms: Rooms, name: str, exposure: str, **pod_template: Any) -> ClientStatus:
    await rooms.make(name, pods(ports=PORTS, **pod_template), exposure=exposure)
    [ann] = await rooms.join(name, "ann")
    return ann


async def pod_at(rooms: Rooms, endpoints: dict[str, str]) -> str:
    """Who answers by HTTP and by UDP."""
    by_http = str((await rooms.ask(endpoints["http"]))["pod"])
    assert endpoints["game"].startswith("udp://")
    by_udp = await ask_by_udp(*place(endpoints["game"]), b"hello")
    assert by_udp.decode() == f"{by_http} hello"
    return by_http


async def answers(rooms: Rooms, endpoints: dict[str, str], pod: str) -> None:
    """Where a Service leads, kube-proxy learns a moment later, and acknowledges to nobody."""

    async def led_there() -> None:
        assert await pod_at(rooms, endpoints) == pod

    not_yet = (aiohttp.ClientConnectionError, OSError)
    await eventually(led_there, every=0.1, not_yet=not_yet)


async def node_addresses(rooms: Rooms) -> set[str]:
    return {
        address.address
        for node in (await rooms.client.list(Node)).items
        for address in node.status.addresses
        if address.type == "InternalIP"
    }


async def services(rooms: Rooms, session: str) -> list[Service]:
    return (await rooms.client.list(Service, NAMESPACE, labels=f"{names.SESSION}={session}")).items


async def replaced(rooms: Rooms, session: str, had: ClientStatus) -> ClientStatus:
    lost = had.pods["server"]
    await rooms.kill(lost)
    return await rooms.recovered(session, "ann", lost)


async def ends_without_a_trace(rooms: Rooms, session: str) -> None:
    await rooms.client.delete(Session, session, NAMESPACE)
    await rooms.client.delete(SessionTemplate, session, NAMESPACE)

    async def nothing() -> None:
        assert rooms.pods_of(session) == []
        assert await services(rooms, session) == []

    await eventually(nothing, within=PATIENCE, every=0.1)


async def test_a_node_port_leads_to_the_pod_and_to_its_successor(rooms: Rooms) -> None:
    ann = await seated(rooms, "node-port", "NodePort")
    endpoints = ann.endpoints["server"]
    assert {place(url)[0] for url in endpoints.values()} <= await node_addresses(rooms)
    await answers(rooms, endpoints, ann.pods["server"])
    again = await replaced(rooms, "node-port", ann)
    assert again.endpoints == ann.endpoints
    await answers(rooms, endpoints, again.pods["server"])
    await ends_without_a_trace(rooms, "node-port")


async def test_a_host_port_leads_to_the_pod_and_to_its_successor(rooms: Rooms) -> None:
    ann = await seated(rooms, "host-port", "HostPort")
    endpoints = ann.endpoints["server"]
    assert {place(url)[0] for url in endpoints.values()} <= await node_addresses(rooms)
    assert await pod_at(rooms, endpoints) == ann.pods["server"]
    again = await replaced(rooms, "host-port", ann)
    assert again.endpoints == ann.endpoints
    # A pod that was deleted by force lives on for a moment after its end was told.
    await answers(rooms, endpoints, again.pods["server"])
    await ends_without_a_trace(rooms, "host-port")


async def test_a_load_balancer_is_waited_for_and_then_kept(rooms: Rooms) -> None:
    await rooms.make("balanced", pods(ports=PORTS), exposure="LoadBalancer")
    await rooms.say("balanced", {"ann": True})
    waiting = await rooms.until("balanced", "ann", lambda has: "load balancer" in has.message)
    assert not waiting.ready
    assert waiting.endpoints == {}
    [service] = await services(rooms, "balanced")
    assert service.spec.type == "LoadBalancer"
    # What a controller of load balancers would do; nodes then take what is sent there.
    address = "198.51.100.7"
    await rooms.client.patch(
        Service,
        service.metadata.name,
        NAMESPACE,
        body={"status": {"loadBalancer": {"ingress": [{"ip": address}]}}},
        subresource="status",
    )
    ann = await rooms.until("balanced", "ann", lambda has: has.ready)
    wanted = {"http": f"http://{address}:{HTTP}/", "game": f"udp://{address}:{UDP}"}
    assert ann.endpoints == {"server": wanted}
    again = await replaced(rooms, "balanced", ann)
    assert again.endpoints == ann.endpoints
    # The address is nobody's here, but the Service behind it answers.
    inside = service.spec.cluster_ip
    ways = {"http": f"http://{inside}:{HTTP}/", "game": f"udp://{inside}:{UDP}"}
    await answers(rooms, ways, again.pods["server"])
    await ends_without_a_trace(rooms, "balanced")


async def test_without_exposure_the_address_is_the_pods_own(rooms: Rooms) -> None:
    ann = await seated(rooms, "inside", "None")
    pod = rooms.pods.cache.find(ann.pods["server"], NAMESPACE)
    assert pod is not None
    hosts = {place(url)[0] for url in ann.endpoints["server"].values()}
    assert hosts == {pod.status.pod_ip}
    assert await pod_at(rooms, ann.endpoints["server"]) == ann.pods["server"]
    # Another pod has another address, which is told.
    again = await replaced(rooms, "inside", ann)
    assert await pod_at(rooms, again.endpoints["server"]) == again.pods["server"]
    assert await services(rooms, "inside") == []
    await ends_without_a_trace(rooms, "inside")


ASK = f"""
import json, socket, sys, urllib.request
http, game = sys.argv[1:]
found = [json.load(urllib.request.urlopen(http, timeout=10))["pod"]]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
    datagrams.settimeout(1)
    for _ in range(10):
        try:
            datagrams.sendto(b"hello", (game, {UDP}))
            found.append(datagrams.recv(2048).decode().split(" ")[0])
            break
        except OSError:
            continue
print(*found)
"""


async def test_a_seats_service_is_a_name_that_stays(rooms: Rooms) -> None:
    ann = await seated(rooms, "named", "None", service=True)
    [bob] = await rooms.join("named", "bob")
    endpoints = ann.endpoints["server"]
    host = place(endpoints["http"])[0]
    assert host.endswith(f".{NAMESPACE}.svc")

    async def seen_by_bob() -> list[str]:
        done = await rooms.client.exec(
            bob.pods["server"],
            NAMESPACE,
            ["python3", "-S", "-E", "-c", ASK, endpoints["http"], host],
        )
        assert done.exit_code == 0, done.stderr
        return done.stdout.decode().split()

    async def led_to(pod: str) -> None:
        async def seen() -> None:
            assert await seen_by_bob() == [pod, pod]

        await eventually(seen, every=0.1)

    await led_to(ann.pods["server"])
    again = await replaced(rooms, "named", ann)
    assert again.endpoints == ann.endpoints
    await led_to(again.pods["server"])
    await ends_without_a_trace(rooms, "named")


async def test_without_the_gateway_api_a_sentence_says_what_is_missing(rooms: Rooms) -> None:
    await rooms.make("routed", pods(ports=PORTS), exposure="GatewayAPI")
    await rooms.say("routed", {"ann": True})
    waiting = await rooms.until("routed", "ann", lambda has: "--gateway-api" in has.message)
    assert not waiting.ready
    seen = await rooms.client.get(Session, "routed", NAMESPACE)
    degraded = {each.type: each for each in seen.status.conditions}["Degraded"]
    assert (degraded.status, degraded.reason) == ("True", "GatewayApiMissing")
    assert "--gateway-api" in degraded.message
    await ends_without_a_trace(rooms, "routed")
