"""What the SDK measures and sends: the way to the pod, and nothing of what else takes time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from edgewise.agents.ping.agent import Address, ping_agent
from edgewise.client.errors import EdgewiseError, Unreachable
from edgewise.client.placement import (
    NodeAddress,
    Reporter,
    ReportKey,
    Sample,
    http_sender,
    sample,
)
from edgewise.client.placement.reporter import Send
from edgewise.client.placement.sampling import handshake_seconds
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port

ANSWER = b"HTTP/1.1 200 OK\r\nedgewise-pod: web-1\r\ncontent-length: 0\r\n\r\n"


@contextlib.asynccontextmanager
async def service(seconds: float = 0.0) -> AsyncIterator[int]:
    """A server that takes its time to answer, not to be connected to."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(seconds)
            writer.write(ANSWER)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_name_that_is_found_slowly_is_not_a_long_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    quick = loop.getaddrinfo

    async def slow(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(1.0)
        return await quick(*args, **options)

    monkeypatch.setattr(loop, "getaddrinfo", slow)
    async with service() as port:
        found = await sample(f"http://localhost:{port}/")
    assert found.pod == "web-1"
    assert 0 < found.rtt_ms < 1000


async def test_a_server_that_thinks_is_not_a_long_way_unless_a_proxy_is_between() -> None:
    async with service(seconds=1.0) as port:
        direct = await sample(f"http://127.0.0.1:{port}/")
        proxied = await sample(f"http://127.0.0.1:{port}/", through_proxy=True)
    assert direct.rtt_ms < 1000 <= proxied.rtt_ms


async def test_the_kernel_times_the_handshake_and_our_own_waiting_is_not_in_it() -> None:
    async with service() as port:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert 0 < handshake_seconds(connection, took=60.0) < 60
            assert handshake_seconds(connection, took=1e-9) == 1e-9
    with socket.socket() as never_connected:
        assert handshake_seconds(never_connected, took=0.25) == 0.25


async def test_the_first_address_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    async with service() as port:
        with socket.socket() as refusing:
            refusing.bind(("127.0.0.1", 0))
            tcp = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
            found = [(*tcp, refusing.getsockname()), (*tcp, ("127.0.0.1", port))]

            async def both(*_: Any, **__: Any) -> Any:
                return found

            monkeypatch.setattr(loop, "getaddrinfo", both)
            assert (await sample(f"http://localhost:{port}/")).pod == "web-1"
            found.pop()
            with pytest.raises(Unreachable):
                await sample(f"http://localhost:{port}/")


async def test_what_is_no_url_gets_a_sentence() -> None:
    with pytest.raises(EdgewiseError, match="say http://HOST:PORT/PATH"):
        await sample("web")


async def sent_by(reporter_of: Any, enough: int) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    done = asyncio.Event()

    @contextlib.asynccontextmanager
    async def sender(_: ReportKey) -> AsyncIterator[Send]:
        async def send(report: bytes) -> None:
            sent.append(json.loads(report))
            if len(sent) >= enough:
                done.set()

        yield send

    async def key() -> ReportKey:
        return ReportKey(
            client="ann",
            key="00" * 32,
            expires=int(time.time()) + 600,
            topic="t",
            observation_ms=100,
        )

    running = asyncio.create_task(reporter_of(key, sender).run())
    try:
        await asyncio.wait_for(done.wait(), 30)
    finally:
        running.cancel()
        await asyncio.wait({running})
    return sent


async def test_one_late_answer_does_not_move_what_is_reported() -> None:
    def made(key: Any, sender: Any) -> Reporter:
        reporter = Reporter(key, "", sender=sender)
        for rtt in (10.0, 11.0, 400.0, 9.0, 10.5):
            reporter.note("web-1", rtt)
        return reporter

    (report,) = await sent_by(made, 1)
    assert (report["pod"], report["rtt"]) == ("web-1", 10.5)


@pytest.mark.parametrize(("answers", "after"), [(3, 1.0), (2, 2.0)])
def test_the_time_of_a_far_pod_counts_from_the_question_when_there_are_enough_answers(
    monkeypatch: pytest.MonkeyPatch, answers: int, after: float
) -> None:
    """500 ms away: asked at 0, answered at 1 and a little later."""
    reporter = Reporter(never, "")
    now = 0.0
    monkeypatch.setattr("edgewise.client.placement.reporter.time.monotonic", lambda: now)
    for number in range(answers):
        now = 1.0 + number / 10
        reporter.note("far", 500.0, asked=number / 10)
    assert reporter._due("far", 1.0) == after


async def test_what_was_asked_before_the_last_report_is_not_counted_twice() -> None:
    reporter = Reporter(never, "")
    begun = time.monotonic()
    for _ in range(3):
        reporter.note("far", 500.0, asked=begun - 1.0)

    async def send(_: bytes) -> None:
        return

    key = key_of_ann()
    await reporter._send_medians(key, send)
    assert reporter.sent == 1
    reporter.note("far", 500.0, asked=begun - 0.9)
    assert reporter._first["far"][0] >= begun


async def never() -> ReportKey:
    raise AssertionError("nobody reports here")


async def test_many_pods_are_reported_at_once_and_then_no_faster_than_is_taken() -> None:
    def made(key: Any, sender: Any) -> Reporter:
        reporter = Reporter(key, "", sender=sender)
        for number in range(14):
            reporter.note(f"web-{number}", 5.0)
        return reporter

    began = time.monotonic()
    sent = await sent_by(made, 14)
    assert len({each["pod"] for each in sent}) == 14
    # Ten at once, and the other four at ten a second: it cannot be quicker than that.
    assert time.monotonic() - began >= 0.4


async def test_a_pod_that_was_not_met_before_is_looked_at_more_often() -> None:
    async def key() -> ReportKey:
        raise AssertionError("nobody reports here")

    reporter = Reporter(key, "")
    assert reporter._pace(60.0) == 10
    reporter.note("web-1", 5.0)
    assert reporter._pace(60.0) == 30
    reporter._new_at = -1e9  # long ago
    reporter.note("web-1", 5.0)
    assert reporter._pace(60.0) == 10
    for number in range(7):
        reporter.note(f"web-{number}", 5.0)
    assert reporter._pace(60.0) == 35
    for number in range(100):
        reporter.note(f"web-{number}", 5.0)
    assert reporter._pace(60.0) == 50


def key_of_ann() -> ReportKey:
    expires = int(time.time()) + 600
    return ReportKey(client="ann", key="00" * 32, expires=expires, topic="t", observation_ms=50)


async def test_a_broker_that_fails_in_the_middle_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgewise.client.placement.reporter.RETRY_SECONDS", 0.01)
    sent: list[bytes] = []

    @contextlib.asynccontextmanager
    async def sender(_: ReportKey) -> AsyncIterator[Send]:
        async def send(report: bytes) -> None:
            sent.append(report)
            if len(sent) < 3:
                raise Unreachable("the broker went away")

        yield send

    async def key() -> ReportKey:
        return key_of_ann()

    async def measured(_: str) -> Sample:
        return Sample(5.0, "web-1")

    reporter = Reporter(key, "http://web/", sender=sender, measure_once=measured)
    running = asyncio.create_task(reporter.run())
    try:
        await eventually(lambda: reporter.sent >= 2, within=30)
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert reporter.failed == 2


async def test_a_reporter_that_is_to_end_does_so_also_when_its_broker_fails_then() -> None:
    there = asyncio.Event()

    @contextlib.asynccontextmanager
    async def sender(_: ReportKey) -> AsyncIterator[Send]:
        async def send(_: bytes) -> None:
            return None

        there.set()
        try:
            yield send
        except asyncio.CancelledError:
            raise Unreachable("it could not be said good-bye to") from None

    async def key() -> ReportKey:
        return key_of_ann()

    running = asyncio.create_task(Reporter(key, "", sender=sender).run())
    await asyncio.wait_for(there.wait(), 10)
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()


async def test_a_client_without_mqtt_reports_through_its_application() -> None:
    """Each report as the text that the HTTP API takes; what fails there is tried again."""
    posted: list[list[str]] = []

    async def post(reports: list[str]) -> None:
        posted.append(reports)

    async with http_sender(post)(key_of_ann()) as send:
        await send(b'{"rtt":5}')
    assert posted == [['{"rtt":5}']]


async def test_with_probe_every_node_that_answers_is_reported_beside_the_pods() -> None:
    """The ping agent of one of them is away."""
    async with ping_agent(None, Address("127.0.0.1", 0)) as near:
        nodes = [
            NodeAddress(node="near", ping=str(near.udp)),
            NodeAddress(node="away", ping=f"127.0.0.1:{free_port()}"),
        ]

        def made(key: Any, sender: Any) -> Reporter:
            async def probing() -> ReportKey:
                return msgspec.structs.replace(await key(), mode="Probe", nodes=nodes)

            return Reporter(probing, "http://web/", sender=sender, measure_once=measured)

        async def measured(_: str) -> Sample:
            return Sample(12.0, "web-1")

        sent = await sent_by(made, 6)
    assert {each.get("node") or each["pod"] for each in sent} == {"near", "web-1"}
    assert all(0 < each["rtt"] < 1000 for each in sent)
