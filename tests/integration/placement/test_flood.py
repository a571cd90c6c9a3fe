"""Ten thousand reports a second at the program for reports: it may fall behind, and stays small."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from edgewise.api.installation import install
from edgewise.api.placement import NAME_LABEL, LatencyPlacement, LatencyPlacementSpec, Target
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.placement.board import VoteBoard
from edgewise.placement.listening import PATH, PAUSE_SECONDS, Listening
from edgewise.placement.report_keys import report_key, signed
from edgewise.placement.reports import Summary
from edgewise.placement.reports_secret import ReportsAccess, read_access
from edgewise.testing.eventually import eventually
from tests.integration.conftest import ApiServer

SHARES = "api-server"

CLIENTS = 500
A_SECOND = 10_000
SECONDS = 4
MOST_GROWTH = 100 << 20


def packet(kind: int, body: bytes) -> bytes:
    """Of MQTT 3.1.1: kind, length, content."""
    length, size = len(body), b""
    while True:
        length, digit = divmod(length, 128)
        size += bytes([digit | (0x80 if length else 0)])
        if not length:
            return bytes([kind]) + size + body


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(2, "big") + value.encode()


def publish(topic: str, payload: bytes) -> bytes:
    return packet(0x30, text(topic) + payload)


@contextlib.asynccontextmanager
async def connected(host: str, port: int) -> AsyncIterator[asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        connect = text("MQTT") + bytes([4, 2, 0, 60]) + text(f"flood-{secrets.token_hex(4)}")
        writer.write(packet(0x10, connect))
        assert (await reader.readexactly(4))[3] == 0
        yield writer
    finally:
        writer.close()


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def said_in(log: Path) -> str:
    return log.read_text()


@contextlib.asynccontextmanager
async def program(
    api_server: ApiServer, client: Client, namespace: str, log: Path
) -> AsyncIterator[tuple[int, ReportsAccess]]:
    command = [sys.executable, "-m", "edgewise.cli", "reports", "--run-broker"]
    command += [f"--kubeconfig={api_server.kubeconfig}", f"--namespace={namespace}"]
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=said, stderr=said, env=os.environ
        )
    try:

        async def there() -> bool:
            assert process.returncode is None, said_in(log)
            known = await read_access(client, namespace)
            return known is not None and bool(known.url)

        await eventually(there, within=60)
        access = await read_access(client, namespace)
        assert access is not None
        yield process.pid, access
        assert process.returncode is None, said_in(log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)


class Sender:
    """Signs what clients would."""

    def __init__(self, access: ReportsAccess, placement: LatencyPlacement) -> None:
        self._expires = int(time.time()) + 600
        self._keys = {
            name: report_key(access.key, placement.metadata.uid, name, "", self._expires)
            for name in (*(f"c{number}" for number in range(CLIENTS)), "ann")
        }
        meta = placement.metadata
        self.topic = f"edgewise/latency/test/{meta.namespace}/{meta.name}"

    def report(self, client: str, rtt: float = 5.0) -> bytes:
        said = {
            "timestamp": time.time(),
            "rtt": rtt,
            "client": client,
            "expires": self._expires,
            "pod": "web-1",
        }
        body = json.dumps(said, separators=(",", ":")).encode()
        return publish(self.topic, signed(body, self._keys[client]))


async def summary(access: ReportsAccess) -> Summary:
    async with (
        aiohttp.ClientSession() as http,
        http.get(
            access.url + PATH,
            headers={"Authorization": f"Bearer {access.token}"},
            timeout=aiohttp.ClientTimeout(total=20),
        ) as answer,
    ):
        return msgspec.json.decode(await answer.read(), type=Summary)


class Ear(VoteBoard):
    """What an operator hears: how often, and of how many pods at most."""

    times = most_pods = 0

    def take(self, summary: Summary) -> None:
        self.times += 1
        pods = sum(len(each.pods) for each in summary.placements)
        self.most_pods = max(self.most_pods, pods)
        super().take(summary)

    @contextlib.asynccontextmanager
    async def listening(self, client: Client, namespace: str) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as http:
            running = asyncio.create_task(Listening(client, http, namespace, self).run())
            try:
                yield
                assert not running.done(), running
            finally:
                running.cancel()
                await asyncio.wait({running})


@pytest.mark.timeout(180)
async def test_ten_thousand_reports_a_second_do_not_make_it_grow_or_go_silent(
    api_server: ApiServer, client: Client, tmp_path: Path
) -> None:
    await install(client, (LatencyPlacement,))
    namespace = f"flood-{secrets.token_hex(3)}"
    await client.create(Namespace.named(namespace))
    spec = LatencyPlacementSpec(target=Target(name="web"))
    placement = await client.create(LatencyPlacement.named("web", namespace, spec=spec))
    pod = Pod.named("web-1", namespace, spec={"containers": [{"name": "c", "image": "c"}]})
    pod.metadata.labels = {NAME_LABEL: "web"}
    await client.create(pod)
    async with program(api_server, client, namespace, tmp_path / "reports.log") as (pid, access):
        sender = Sender(access, placement)
        host, _, port = access.broker.removeprefix("mqtt://").rpartition(":")
        ear, began = Ear(), time.monotonic()
        async with connected(host, int(port)) as writer, ear.listening(client, namespace):

            async def heard() -> bool:
                writer.write(sender.report("ann"))
                told = await summary(access)
                return any(each.pods for each in told.placements)

            await eventually(heard, within=30, every=0.3)
            before = resident(pid)
            forged = publish(sender.topic, b'{"client":"eve","mac":"' + b"0" * 64 + b'"}')
            part = [sender.report(f"c{number}") for number in range(CLIENTS)]
            for second in range(SECONDS * 10):
                if second % 10 == 0:
                    part = [sender.report(f"c{number}") for number in range(CLIENTS)]
                lines = part[(second % 10) * 50 :][:50]
                writer.write(b"".join(lines) + forged * (A_SECOND // 10 - len(lines)))
                await writer.drain()
                await asyncio.sleep(0.05)
            # It answers in the middle of it, and counts who is honest afterwards.
            version = (await summary(access)).version

            async def counted() -> bool:
                writer.write(sender.report("ann"))
                return (await summary(access)).version > version

            await eventually(counted, within=60, every=0.3)
            assert resident(pid) - before < MOST_GROWTH
        # Other domains keep their pace: whatever comes, the operator hears little of it.
        assert 0 < ear.times <= (time.monotonic() - began) / PAUSE_SECONDS + 1
        assert ear.most_pods == 1
