"""TCP and UDP through real Envoy: a port of one's own, kept over changes."""

import asyncio
import socket

import pytest

from edgewise.testing.eventually import eventually
from edgewise.testing.gateway_rig import LOOPBACK, UdpClient, owner, route

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST = 20000


@pytest.fixture
def port(unused=iter(range(FIRST, FIRST + 500))):  # noqa: B008 - one sequence for all tests
    return next(port for port in unused if is_free(port))


def is_free(port: int) -> bool:
    try:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


async def tcp_ask(port: int, text: str) -> str:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(text.encode() + b"\n")
    line = await asyncio.wait_for(reader.readline(), 5)
    writer.close()
    return line.decode().strip()


async def test_a_port_works_as_soon_as_it_is_acknowledged(gateway, pods, port):
    pod = await pods("a")
    await gateway.serve(
        "ns/s", route(pod, "seat-a", "TCP", port), route(pod, "seat-a", "UDP", port)
    )
    assert await tcp_ask(port, "hi") == "a hi"
    client = await UdpClient.open(port)
    assert await client.ask("hi") == "a hi"
    client.close()


async def test_large_datagrams_pass(gateway, pods, port):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", "UDP", port))
    client = await UdpClient.open(port)
    text = "x" * 8000
    assert await client.ask(text) == f"a {text}"
    client.close()


async def test_a_replaced_pod_is_reached_at_the_same_port_by_the_same_flow(gateway, pods, port):
    old, new = await pods("old"), await pods("new")
    await gateway.serve(
        "ns/s", route(old, "seat-a", "UDP", port), route(old, "seat-a", "TCP", port)
    )
    listeners = await listener_updates(gateway)
    client = await UdpClient.open(port)
    assert await client.ask("one") == "old one"

    await gateway.serve(
        "ns/s", route(new, "seat-a", "UDP", port), route(new, "seat-a", "TCP", port)
    )
    assert await client.ask("two") == "new two"
    assert await tcp_ask(port, "two") == "new two"
    # The listeners were not touched: that would have disturbed other flows of the port.
    assert await listener_updates(gateway) == listeners
    client.close()


async def listener_updates(gateway) -> bytes:
    _, body = await gateway.envoy.admin.ask(
        "GET", "/stats?filter=^listener_manager.listener_(added|modified|removed|in_place_updated)$"
    )
    return body


async def test_a_port_that_is_gone_is_closed(gateway, pods, port):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", "TCP", port))
    assert await tcp_ask(port, "hi") == "a hi"
    gateway.routing.show(owner("ns/s"), [])

    async def refused():
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        except ConnectionRefusedError:
            return True
        writer.close()
        return False

    # A connection that is still waiting to be accepted when the listener closes is reset.
    await eventually(refused, not_yet=(ConnectionResetError,))
    await eventually(lambda: not gateway.routing.unready)


async def test_a_port_handed_to_another_seat_leads_only_there(gateway, pods, port):
    a, b = await pods("a"), await pods("b")
    await gateway.serve("ns/a", route(a, "seat-a", "TCP", port), route(a, "seat-a", "UDP", port))
    client = await UdpClient.open(port)
    assert await client.ask("hi") == "a hi"
    assert await tcp_ask(port, "hi") == "a hi"

    gateway.routing.show(owner("ns/a"), [])
    await gateway.serve("ns/b", route(b, "seat-b", "TCP", port), route(b, "seat-b", "UDP", port))
    assert await tcp_ask(port, "hi") == "b hi"
    assert await client.ask("hi") == "b hi"
    client.close()


async def test_a_port_that_another_program_has_is_rejected_alone(gateway, pods, port):
    """Envoy refuses the batch; the bad one is found and the others are served."""
    pod = await pods("a")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind((LOOPBACK, port))
        other.listen()
        good = [route(pod, f"seat-{n}", "TCP", port + 1 + n) for n in range(5)]
        bad = route(pod, "seat-x", "TCP", port)
        outcome = await gateway.routing.push(owner("ns/s"), [*good[:3], bad, *good[3:]], timeout=10)
        assert sorted(outcome.acked) == sorted(item.id for item in good)
        assert list(outcome.rejected) == ["seat-x/tcp"]
        assert "bind" in outcome.rejected["seat-x/tcp"]
        for item in good:
            assert await tcp_ask(item.listen_port, "hi") == "a hi"
        # Another port for the same seat is all it takes.
        await gateway.serve("ns/s", route(pod, "seat-x", "TCP", port + 6))
        assert await tcp_ask(port + 6, "hi") == "a hi"
        await eventually(lambda: not gateway.routing.unready)


async def test_a_port_of_another_session_is_rejected(gateway, pods, port):
    pod = await pods("a")
    await gateway.serve("ns/a", route(pod, "seat-a", "UDP", port))
    outcome = await gateway.routing.push(
        owner("ns/b"), [route(pod, "seat-b", "UDP", port)], timeout=5
    )
    assert "held by ns/a (sessions)" in outcome.rejected["seat-b/udp"]


async def test_a_seat_that_changes_its_port_leaves_the_old_one(gateway, pods, port):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", "TCP", port))
    await gateway.serve("ns/s", route(pod, "seat-a", "TCP", port + 100))
    assert await tcp_ask(port + 100, "hi") == "a hi"
    await eventually(lambda: is_free(port))


async def test_a_pod_may_have_an_ipv6_address(gateway, pods, http, port):
    pod = await pods("six", "::1")
    await gateway.serve(
        "ns/s",
        route(pod, "seat-a"),
        route(pod, "seat-a", "TCP", port),
        route(pod, "seat-a", "UDP", port),
    )
    async with http.get(gateway.url("/s/seat-a/http/")) as answer:
        assert (await answer.json())["pod"] == "six"
    assert await tcp_ask(port, "hi") == "six hi"
    client = await UdpClient.open(port)
    assert await client.ask("hi") == "six hi"
    client.close()


async def test_a_connection_does_not_outlive_its_port_for_long(gateway, pods, port):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", "TCP", port))
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"hi\n")
    assert await reader.readline() == b"a hi\n"
    gateway.routing.show(owner("ns/s"), [])
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()
