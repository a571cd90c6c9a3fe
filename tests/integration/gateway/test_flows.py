"""What others do never disturbs a flow."""

import asyncio
import contextlib
import os
import signal

import grpc
import msgspec
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from edgewise.agents.gateway.ads import SERVICE
from edgewise.agents.gateway.resource import ResourceType
from edgewise.testing.eventually import eventually
from edgewise.testing.gateway_rig import LOOPBACK, UdpClient, owner, route
from tests.integration.gateway.conftest import running, short_directory

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANGES = 1000


class Flows:
    """A WebSocket, a TCP connection and a UDP flow that talk until they are told to stop."""

    def __init__(self, gateway, http, port):
        self.gateway, self.http, self.port = gateway, http, port
        self.asked = {"ws": 0, "tcp": 0, "udp": 0}
        self.answered = dict(self.asked)
        self.stop = asyncio.Event()

    async def talk(self):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.web_socket())
            tasks.create_task(self.tcp())
            tasks.create_task(self.udp())

    async def pace(self):
        await asyncio.sleep(0.005)

    async def web_socket(self):
        async with self.http.ws_connect(self.gateway.url("/s/steady/http/")) as chat:
            while not self.stop.is_set():
                self.asked["ws"] += 1
                await chat.send_str(str(self.asked["ws"]))
                assert await chat.receive_str(timeout=30) == f"steady {self.asked['ws']}"
                self.answered["ws"] += 1
                await self.pace()

    async def tcp(self):
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        while not self.stop.is_set():
            self.asked["tcp"] += 1
            writer.write(f"{self.asked['tcp']}\n".encode())
            line = await asyncio.wait_for(reader.readline(), 5)
            assert line == f"steady {self.asked['tcp']}\n".encode()
            self.answered["tcp"] += 1
            await self.pace()
        writer.close()

    async def udp(self):
        client = await UdpClient.open(self.port)
        while not self.stop.is_set():
            self.asked["udp"] += 1
            assert await client.ask(str(self.asked["udp"])) == f"steady {self.asked['udp']}"
            self.answered["udp"] += 1
            await self.pace()
        client.close()

    async def more(self, than):
        await eventually(lambda: all(self.answered[key] > than[key] for key in than))


async def start_flows(gateway, pods, http):
    pod = await pods("steady")
    port = next_port()
    await gateway.serve(
        "ns/steady",
        route(pod, "steady"),
        route(pod, "steady", "TCP", port),
        route(pod, "steady", "UDP", port),
    )
    flows = Flows(gateway, http, port)
    task = asyncio.create_task(flows.talk())
    await flows.more({"ws": 3, "tcp": 3, "udp": 3})
    return flows, task, pod


def next_port(ports=iter(range(20600, 21400))):  # noqa: B008 - one sequence for all tests
    return next(ports)


async def test_flows_survive_a_thousand_changes_by_others(gateway, pods, http):
    flows, task, pod = await start_flows(gateway, pods, http)
    other = await pods("other")
    before = dict(flows.answered)
    ports = [next_port() for _ in range(10)]
    for n in range(CHANGES):
        # Join, move and leave, over HTTP, TCP and UDP, in turn.
        seat = f"seat-{n % 20}"
        pieces = [route(other, seat)]
        if n % 3:
            kind = "TCP" if n % 2 else "UDP"
            pieces.append(route(other, seat, kind, ports[n % 10]))
        if n % 5 == 0:
            pieces = [msgspec.structs.replace(piece, address="127.0.0.2") for piece in pieces]
        session = f"ns/other-{n % 10}"
        gateway.routing.show(session, pieces if n % 7 else [])
        if n % 50 == 0:
            await eventually(lambda: not gateway.routing.unready)
        await asyncio.sleep(0.002)
    await eventually(lambda: not gateway.routing.unready)
    await flows.more(before)
    flows.stop.set()
    await asyncio.wait_for(task, 10)
    assert flows.answered == flows.asked
    # The pod, too, has seen one flow all the time: no new source port.
    assert len(pod.udp_peers) == 1
    assert min(flows.answered.values()) > 100


async def test_flows_go_on_while_the_agent_is_down_and_when_it_is_back(gateway, pods, http):
    flows, task, pod = await start_flows(gateway, pods, http)
    served = list(gateway.routing._table.served.values())

    await gateway.stop_agent()
    await flows.more(dict(flows.answered))

    gateway.new_agent()
    await gateway.start_agent()
    # It knows nothing yet, and must not tell Envoy that there is nothing.
    await eventually(lambda: len(gateway.routing.streams) == 1)
    await flows.more(dict(flows.answered))
    gateway.routing.show(owner("ns/steady"), served)
    await gateway.ready()
    assert responses(gateway) == 0, "a restart sends nothing that Envoy has"

    await gateway.serve("ns/new", route(pod, "later"))
    async with http.get(gateway.url("/s/later/http/")) as answer:
        assert answer.status == 200
    flows.stop.set()
    await asyncio.wait_for(task, 10)
    assert flows.answered == flows.asked
    assert len(pod.udp_peers) == 1


def responses(gateway) -> float:
    return sum(
        sample.value
        for metric in (gateway.metrics.acks, gateway.metrics.nacks)
        for family in metric.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


async def test_an_envoy_that_dies_is_started_again_and_serves_the_same(gateway, pods, http):
    pod = await pods("a")
    port = next_port()
    await gateway.serve("ns/s", route(pod, "seat-a"), route(pod, "seat-a", "UDP", port))
    first = gateway.envoy.pid
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: gateway.envoy.pid not in (None, first), within=20)
    await eventually(lambda: not gateway.routing.unready, within=20)
    async with http.get(gateway.url("/s/seat-a/http/")) as answer:
        assert answer.status == 200
    client = await UdpClient.open(port)
    assert await client.ask("hi") == "a hi"
    client.close()


async def test_two_gateways_serve_the_same_routes_and_fail_alone(gateway, pods, http):
    pod = await pods("a")
    with short_directory() as run_dir:
        async with running(run_dir) as second:
            for each in (gateway, second):
                await each.serve("ns/s", route(pod, "seat-a"))
                async with http.get(each.url("/s/seat-a/http/")) as answer:
                    assert (await answer.json())["pod"] == "a"
            async with http.ws_connect(second.url("/s/seat-a/http/")) as chat:
                os.kill(gateway.envoy.pid, signal.SIGKILL)
                await chat.send_str("hi")
                assert await chat.receive_str(timeout=30) == "a hi"
                await second.serve("ns/t", route(pod, "seat-b"))


class SilentEnvoy:
    """Asks for everything like an Envoy and acknowledges only when it is told to."""

    def __init__(self, gateway, node):
        self.channel = grpc.aio.insecure_channel(f"unix:{gateway.run_dir}/xds.sock")
        self.node = node
        self.silent = False
        self.withheld = []

    async def run(self):
        call = self.channel.stream_stream(
            f"/{SERVICE}/DeltaAggregatedResources",
            request_serializer=discovery_pb2.DeltaDiscoveryRequest.SerializeToString,
            response_deserializer=discovery_pb2.DeltaDiscoveryResponse.FromString,
        )(wait_for_ready=True)
        self.call = call
        for type in (ResourceType.CLUSTER, ResourceType.LISTENER, ResourceType.SCOPE):
            request = discovery_pb2.DeltaDiscoveryRequest(type_url=type.value)
            request.node.id = self.node
            await call.write(request)
        async for response in call:
            answer = discovery_pb2.DeltaDiscoveryRequest(
                type_url=response.type_url, response_nonce=response.nonce
            )
            if self.silent:
                self.withheld.append(answer)
            else:
                await call.write(answer)

    async def speak(self):
        self.silent = False
        for answer in self.withheld:
            await self.call.write(answer)


@contextlib.asynccontextmanager
async def another_envoy(gateway, node="other"):
    envoy = SilentEnvoy(gateway, node)
    task = asyncio.create_task(envoy.run())
    try:
        yield envoy
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await envoy.channel.close()


async def test_a_route_is_acknowledged_only_when_every_envoy_has_it(gateway, pods):
    pod = await pods("a")
    async with another_envoy(gateway) as other:
        await eventually(lambda: len(gateway.routing.streams) == 2)
        await eventually(lambda: not gateway.routing.unready)
        other.silent = True
        outcome = await gateway.routing.push(owner("ns/s"), [route(pod, "seat-a")], timeout=0.3)
        assert (outcome.acked, outcome.pending) == ([], ["seat-a/http"])
        assert gateway.routing.unready
        waiting = asyncio.create_task(
            gateway.routing.push(owner("ns/s"), [route(pod, "seat-a")], timeout=10)
        )
        await asyncio.sleep(0)
        await other.speak()
        assert (await waiting).acked == ["seat-a/http"]
        assert not gateway.routing.unready


async def test_an_envoy_that_went_away_holds_up_nobody(gateway, pods):
    pod = await pods("a")
    async with another_envoy(gateway) as other:
        await eventually(lambda: len(gateway.routing.streams) == 2)
        await eventually(lambda: not gateway.routing.unready)
        other.silent = True
        waiting = asyncio.create_task(
            gateway.routing.push(owner("ns/s"), [route(pod, "seat-a")], timeout=10)
        )
        await asyncio.sleep(0)
    assert (await waiting).acked == ["seat-a/http"]


async def test_a_second_stream_of_the_same_envoy_replaces_the_first(gateway):
    async with another_envoy(gateway, "same") as first:
        await eventually(lambda: len(gateway.routing.streams) == 2)
        first.silent = True
        async with another_envoy(gateway, "same"):
            await eventually(first.call.done)
            await eventually(lambda: len(gateway.routing.streams) == 2)
            await eventually(lambda: not gateway.routing.unready)


async def test_open_connections_get_time_to_end_when_the_gateway_stops(run_dir, pods, http):
    pod = await pods("a")
    async with running(run_dir, drain_seconds=20) as gateway:
        await gateway.serve("ns/s", route(pod, "seat-a"))
        pid = gateway.envoy.pid
        chat = await http.ws_connect(gateway.url("/s/seat-a/http/"))
        stopping = asyncio.create_task(gateway.envoy.stop())
        await eventually(lambda: is_leaving(http, gateway))
        await chat.send_str("still here")
        assert await chat.receive_str(timeout=30) == "a still here"
        await chat.close()
        await stopping
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def is_leaving(http, gateway):
    async with http.get(gateway.url("/-/healthy")) as answer:
        return answer.status == 503


async def test_a_connection_without_a_word_is_no_envoy(gateway, pods):
    channel = grpc.aio.insecure_channel(f"unix:{gateway.run_dir}/xds.sock")
    mute = channel.stream_stream(f"/{SERVICE}/DeltaAggregatedResources")(wait_for_ready=True)
    try:
        await mute.wait_for_connection()
        outcome = await gateway.routing.push(
            owner("ns/s"), [route(await pods("a"), "seat-a")], timeout=5
        )
        assert outcome.acked == ["seat-a/http"]
        assert not gateway.routing.unready
    finally:
        mute.cancel()
        await channel.close()


PING, GOAWAY = 6, 7


async def test_an_envoy_may_ask_often_whether_the_agent_is_there(gateway):
    """Raw HTTP/2: pings and nothing else, more than gRPC takes for an attack by default."""
    reader, writer = await asyncio.open_unix_connection(f"{gateway.run_dir}/xds.sock")
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    answered = 0
    for _ in range(10):
        writer.write(bytes([0, 0, 8, PING, 0, 0, 0, 0, 0]) + b"whoareu?")
        while True:
            head = await asyncio.wait_for(reader.readexactly(9), 5)
            body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            assert head[3] != GOAWAY, body
            if head[3] == PING and head[4] & 1:
                break
        answered += 1
    writer.close()
    assert answered == 10
