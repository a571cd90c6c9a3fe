"""Reports through a real mosquitto: what clients may do there, and what a flood does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace

import aiomqtt
import pytest
import typer.testing

from edgewise.agents.reports.broker import running_broker
from edgewise.agents.reports.intake import DroppingQueue, Intake
from edgewise.cli.reports import app
from edgewise.client.placement import Reporter, ReportKey, Sample, sign
from edgewise.placement.broker_url import BadBrokerUrl, BrokerUrl
from edgewise.placement.report_keys import report_key
from edgewise.placement.reports import LARGEST, PodKnown, Reports, Rules, Verdict
from edgewise.testing.eventually import eventually

SECRET = b"s" * 32
TOPIC = "edgewise/latency/rome/default/web"


def counting() -> Reports:
    made = Reports(SECRET)
    rules = Rules(uid="p1", observation=0.2, half_life=2.0, max_rtt_ms=10_000)
    made.set_placement("default", "web", rules)
    made.set_pod("default", "web-1", PodKnown(uid="u1", node="n1", placement="web"))
    return made


def key_for(client: str, port: int) -> ReportKey:
    expires = int(time.time()) + 600
    return ReportKey(
        client=client,
        key=report_key(SECRET, "p1", client, "", expires).hex(),
        expires=expires,
        topic=TOPIC,
        broker=f"mqtt://127.0.0.1:{port}",
        observation_ms=200,
    )


@contextlib.asynccontextmanager
async def taking(intake: Intake) -> AsyncIterator[None]:
    running = asyncio.create_task(intake.run())
    try:
        await eventually(lambda: intake.connected)
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


def ours(private: int) -> BrokerUrl:
    return BrokerUrl(host="127.0.0.1", port=private)


async def test_the_sdk_reports_and_the_program_counts() -> None:
    reports = counting()
    async with running_broker("127.0.0.1") as broker:

        async def measured(_: str) -> Sample:
            return Sample(12.0, "web-1")

        async def key() -> ReportKey:
            return key_for("ann", broker.public)

        reporter = Reporter(key, "http://web/", measure_once=measured)
        async with taking(Intake(reports, ours(broker.private))):
            reporting = asyncio.create_task(reporter.run())
            try:
                await eventually(lambda: reports.verdicts[Verdict.ACCEPTED] >= 3, within=20)
            finally:
                reporting.cancel()
                await asyncio.wait({reporting})
    (placement,) = reports.summary(0, time.time()).placements
    assert placement.pods[0].rtt_ms == pytest.approx(12.0)
    assert set(reports.verdicts) == {Verdict.ACCEPTED}


async def test_a_client_can_publish_and_not_read() -> None:
    async with running_broker("127.0.0.1") as broker:
        heard: list[bytes] = []
        async with (
            aiomqtt.Client("127.0.0.1", broker.public) as spy,
            aiomqtt.Client("127.0.0.1", broker.public) as client,
            aiomqtt.Client("127.0.0.1", broker.private) as program,
        ):
            await program.subscribe("edgewise/latency/#")
            with contextlib.suppress(aiomqtt.MqttError):
                await spy.subscribe("#")

            async def listen() -> None:
                async for message in spy.messages:
                    heard.append(bytes(message.payload))  # type: ignore[arg-type]

            listening = asyncio.create_task(listen())
            await client.publish("somewhere/else", b"no")
            await client.publish(TOPIC, b"hello")
            async with asyncio.timeout(10):
                first = await anext(aiter(program.messages))
            listening.cancel()
            await asyncio.wait({listening})
        assert (str(first.topic), first.payload) == (TOPIC, b"hello")
        assert heard == []


async def test_a_broker_that_comes_back_is_listened_to_again() -> None:
    reports = counting()
    async with contextlib.AsyncExitStack() as stack:
        async with running_broker("127.0.0.1") as broker:
            intake = Intake(reports, ours(broker.private))
            await stack.enter_async_context(taking(intake))
        await eventually(lambda: not intake.connected)
        assert "does not answer" in intake.trouble
        async with running_broker("127.0.0.1", private=broker.private):
            await eventually(lambda: intake.connected, within=15)


async def test_a_flood_is_dropped_and_counted() -> None:
    """More than fits the queue is dropped; what is counted stays bounded, and news still comes."""
    reports = counting()
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(running_broker("127.0.0.1"))
        intake = Intake(reports, ours(broker.private), most_waiting=100)
        await stack.enter_async_context(taking(intake))
        client = await stack.enter_async_context(aiomqtt.Client("127.0.0.1", broker.public))
        for _ in range(5_000):
            await client.publish(TOPIC, b'{"forged":1}')

        async def heard() -> bool:
            await client.publish(TOPIC, sign(key_for("ann", broker.public), 5.0, pod="web-1"))
            return reports.verdicts[Verdict.ACCEPTED] > 0

        await eventually(heard, within=30)
        seen = reports.verdicts
        assert seen[Verdict.UNREADABLE] + seen[Verdict.DROPPED] > 0
        assert sum(seen.values()) <= 5_000 + 1_000


def test_a_queue_that_is_full_drops_and_says_so() -> None:
    dropped: list[Verdict] = []
    queue = DroppingQueue(2, on_drop=dropped.append)
    for number in range(5):
        queue.put_nowait(number)
    assert queue.qsize() == 2
    assert dropped == [Verdict.DROPPED] * 3


def test_what_is_larger_than_a_report_does_not_wait_in_the_queue() -> None:
    dropped: list[Verdict] = []
    queue = DroppingQueue(10, on_drop=dropped.append)
    for size in (LARGEST, LARGEST + 1, 10_000_000):
        queue.put_nowait(SimpleNamespace(payload=b"x" * size))
    assert queue.qsize() == 1
    assert dropped == [Verdict.TOO_LARGE] * 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker",
        "http://a",
        "mqtt://",
        "mqtt://a:x",
        "mqtt://u:secret@a/path",
        f"mqtt://u:secret@{'a' * 64}:1883",  # no name has so long a part
        "mqtt://u:secret@a..b",
    ],
)
def test_a_wrong_broker_url_gets_a_sentence_without_its_password(text: str) -> None:
    with pytest.raises(BadBrokerUrl, match="write mqtt://HOST:PORT") as refused:
        BrokerUrl.parse(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("option", ["--broker", "--public-broker"])
def test_the_command_names_the_option_that_is_wrong(option: str) -> None:
    arguments = [f"{option}=http://a"]
    arguments += ["--run-broker"] if option == "--public-broker" else []
    with pytest.raises(BadBrokerUrl, match=f"{option}: 'http://a' is not the address of a broker"):
        typer.testing.CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_broker_url_is_shown_without_its_password() -> None:
    url = BrokerUrl.parse("mqtts://me:secret@broker.example")
    assert (url.port, url.tls, url.password) == (8883, True, "secret")
    assert "secret" not in repr(url)
    assert "secret" not in json.dumps(str(url))
