"""The ping agent on loopback, with the SDK's probe and with callers that misbehave."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from edgewise.agents.ping.agent import Address, BadAddress, Listening, ping_agent
from edgewise.agents.ping.callers import Limits
from edgewise.agents.ping.echo import ANSWER, QUESTION
from edgewise.client.probe import Target, measure

HERE = Address("127.0.0.1", 0)
GENEROUS = Limits(per_caller=1000, burst=1000)


@pytest.fixture
async def agent() -> AsyncIterator[Listening]:
    async with ping_agent(HERE, HERE, GENEROUS) as listening:
        yield listening


def url(listening: Listening, path: str = "/ping") -> str:
    return f"http://{listening.http}{path}"


class Slow(asyncio.DatagramProtocol):
    """A relay on loopback that answers late, or loses what it is told to lose."""

    def __init__(self, delays: list[float | None]) -> None:
        self.delays = delays

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:
        delay = self.delays.pop(0) if self.delays else None
        if delay is not None:
            answer = ANSWER + data[len(QUESTION) :]
            asyncio.get_running_loop().call_later(delay, self.transport.sendto, answer, addr)


async def slow(delays: list[float | None]) -> tuple[str, asyncio.BaseTransport]:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Slow(delays), local_addr=("127.0.0.1", 0)
    )
    return f"127.0.0.1:{transport.get_extra_info('sockname')[1]}", transport


async def test_both_halves_answer_the_sdk(agent: Listening) -> None:
    found = await measure(
        [Target(name="udp", udp=str(agent.udp)), Target(name="http", http=url(agent))],
        deadline=10,
    )
    assert {name: (m.how, m.received, m.sent) for name, m in found.items()} == {
        "udp": ("udp", 5, 5),
        "http": ("http", 5, 5),
    }
    assert all(m.median_ms is not None and m.median_ms > 0 for m in found.values())


async def test_the_median_counts_and_not_the_one_late_answer() -> None:
    address, transport = await slow([0.1, 0.4, 0.1, 0.1, 0.1])
    try:
        found = await measure([Target(name="a", udp=address)], deadline=10)
    finally:
        transport.close()
    assert found["a"].received >= 4
    assert found["a"].median_ms is not None
    assert 100 <= found["a"].median_ms < 250


async def test_lost_probes_are_counted_and_the_deadline_ends_it() -> None:
    address, transport = await slow([0.0, None, 0.0, None, 0.0])
    try:
        found = await measure([Target(name="a", udp=address)], deadline=0.5)
    finally:
        transport.close()
    assert (found["a"].received, found["a"].sent) == (3, 5)
    assert found["a"].median_ms is not None


async def test_where_udp_is_blocked_http_is_asked(agent: Listening) -> None:
    address, transport = await slow([])
    try:
        found = await measure([Target(name="a", udp=address, http=url(agent))], deadline=3)
    finally:
        transport.close()
    assert (found["a"].how, found["a"].received) == ("http", 5)


@pytest.mark.parametrize(
    "target",
    [
        Target(name="a"),
        Target(name="a", udp="127.0.0.1:1"),
        Target(name="a", http="http://127.0.0.1:1/ping"),
        Target(name="a", udp="no-port", http="ftp://127.0.0.1/"),
    ],
)
async def test_a_location_that_never_answers_is_in_the_answer(target: Target) -> None:
    found = await measure([target], deadline=0.2)
    assert found["a"].median_ms is None
    assert found["a"].received == 0


async def test_one_caller_cannot_have_more_than_its_share() -> None:
    limits = Limits(per_caller=1, burst=3)
    async with ping_agent(HERE, HERE, limits) as at:
        found = await measure([Target(name="a", udp=str(at.udp))], probes=20, deadline=1)
        assert 3 <= found["a"].received <= 5
        async with aiohttp.ClientSession() as session:
            statuses = []
            for _ in range(5):
                async with session.get(url(at)) as answer:
                    statuses.append(answer.status)
                    if answer.status == 429:
                        assert int(answer.headers["Retry-After"]) >= 1
        assert statuses[:3] == [204, 204, 204]
        assert 429 in statuses


async def test_rubbish_is_met_with_silence(agent: Listening) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.setblocking(False)
        asker.connect(("127.0.0.1", agent.udp.port))  # type: ignore[union-attr]
        for rubbish in (b"", b"x", ANSWER + bytes(27), QUESTION + bytes(28), b"\xff" * 1400):
            asker.send(rubbish)
        asker.send(QUESTION + b"7" * 27)  # answered in order, so the rest was not
        async with asyncio.timeout(30):
            assert await loop.sock_recv(asker, 2000) == ANSWER + b"7" * 27


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/ping/x", 404), ("POST", "/ping", 405), ("GET", "/healthz", 204)],
)
async def test_http_answers(agent: Listening, method: str, path: str, status: int) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url(agent, path)) as answer,
    ):
        assert answer.status == status
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert await answer.read() == b""


async def test_connections_of_one_caller_are_bounded_and_come_back() -> None:
    limits = Limits(connections_per_caller=2)
    async with ping_agent(HERE, None, limits) as at:
        assert at.http is not None

        async def ask() -> tuple[asyncio.StreamWriter, bytes]:
            reader, writer = await asyncio.open_connection("127.0.0.1", at.http.port)
            try:
                writer.write(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
                async with asyncio.timeout(30):
                    return writer, await reader.readline()
            except ConnectionError:
                return writer, b""

        first, second, third = [await ask() for _ in range(3)]
        assert b"204" in first[1]
        assert b"204" in second[1]
        assert third[1] == b""
        for writer in (first[0], second[0], third[0]):
            writer.close()
        async with asyncio.timeout(30):
            while b"204" not in (again := await ask())[1]:
                again[0].close()
                await asyncio.sleep(0.02)
        again[0].close()


async def test_connections_that_the_agent_closes_are_counted_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """32 ordinary keep-alive connections that idle out must not be the last ones."""
    monkeypatch.setattr("edgewise.agents.ping.http.IDLE_SECONDS", 0.1)
    async with ping_agent(HERE, None, Limits(connections=3, connections_per_caller=2)) as at:
        assert at.http is not None
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", at.http.port)
            writer.write(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(30):
                assert b"204" in await reader.read(), "and the agent ends it"
            writer.close()


async def test_an_address_that_is_taken_is_a_sentence(agent: Listening) -> None:
    with pytest.raises(BadAddress, match=r"cannot listen on TCP .* choose another address"):
        async with ping_agent(agent.http, None):
            pass
    with pytest.raises(BadAddress, match=r"cannot listen on UDP .* choose another address"):
        async with ping_agent(None, agent.udp):
            pass


async def test_the_command_serves_until_it_is_told_to_end() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "edgewise.cli", "ping"),
        *("--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            line = (await process.stdout.readline()).decode()
        http, udp = line.split()[-4], line.split()[-1]
        found = await measure(
            [Target(name="u", udp=udp), Target(name="h", http=f"http://{http}/ping")], deadline=10
        )
        assert [m.received for m in found.values()] == [5, 5]
    finally:
        process.terminate()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
