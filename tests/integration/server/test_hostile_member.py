"""One member that means harm, and what it does to the server of all the others.

    EDGEWISE_CHAOS=1 pytest -s tests/integration/server/test_hostile_member.py

makes every attack for longer, times `/healthz` meanwhile, and prints the rows of the table in
docs/threat-model.md. Without it the memory is measured, under a few of the attacks: how long an
answer takes says more about what else the machine does.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import yaml

from edgewise.api.clusters import KUBECONFIG_KEY, Cluster, ClusterSpec
from edgewise.api.global_sessions import Location, LocationSpec
from edgewise.api.installation import install
from edgewise.api.secrets import SECRET_LABEL
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Secret
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import KINDS
from edgewise.testing.ports import free_port
from tests.integration.conftest import ApiServer
from tests.integration.server.hostile_member import ATTACKS

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
SECONDS = 12.0 if LONG else 3.0
FEW = ("gzip", "pages", "flood")
GROWTH = 32 << 20
PACE = 0.01
HOSTILE = Path(__file__).with_name("hostile_member.py")


class Seen(msgspec.Struct):
    most: int
    p99: float


class Server:
    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    def memory(self) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = (line for line in text.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def watch(self, seconds: float) -> Seen:
        """Its memory, and how long /healthz takes."""
        taken, most = [], 0
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        ends = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ends:
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b'{"status":"ok","reason":""}'
            lasted = time.perf_counter() - began
            taken.append(lasted)
            most = max(most, self.memory())
            time.sleep(max(0.0, PACE - lasted))
        connection.close()
        return Seen(most, sorted(taken)[len(taken) * 99 // 100])


@pytest.fixture
async def server(api_server: ApiServer, client: Client, namespace: str) -> AsyncIterator[Server]:
    await install(client, KINDS)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "edgewise.cli", "server", "--quiet", "--metrics", ""),
        *("--kubeconfig", str(api_server.kubeconfig), "--namespace", namespace),
        *("--listen", f"127.0.0.1:{port}"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    served = Server(process.pid, port)

    def up() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200

    await eventually(up, within=60, every=0.2, not_yet=(OSError,))
    yield served
    process.terminate()
    await asyncio.wait_for(process.wait(), 20)


@contextlib.asynccontextmanager
async def attacked(client: Client, namespace: str, attack: str) -> AsyncIterator[list[int]]:
    """A member that attacks while this lasts; then the bytes that it has sent are there."""
    sent: list[int] = []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HOSTILE), attack),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": attack,
        "clusters": [{"name": attack, "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [],
        "contexts": [{"name": attack, "context": {"cluster": attack}}],
    }
    content = yaml.safe_dump(kubeconfig).encode()
    secret = Secret.named(attack, namespace, data={KUBECONFIG_KEY: content})
    secret.metadata.labels = {SECRET_LABEL: "kubeconfig"}
    await client.create(secret)
    spec = ClusterSpec(kubeconfig_secret=attack)
    await client.create(Cluster.named(attack, namespace, spec=spec))
    location = LocationSpec(cluster=attack, namespace="default")
    await client.create(Location.named(attack, namespace, spec=location))
    try:
        yield sent
    finally:
        await client.delete(Location, attack, namespace)
        await client.delete(Cluster, attack, namespace)
        await client.delete(Secret, attack, namespace)
        last, _ = await asyncio.wait_for(process.communicate(b""), 20)
        sent.append(int(last))


async def test_a_hostile_member_fills_no_memory_and_holds_up_nobody(
    server: Server, client: Client, namespace: str
) -> None:
    watch = server.watch
    await asyncio.to_thread(watch, 2.0)  # what the first requests load stays loaded
    for title, attack in ATTACKS.items():
        if not LONG and attack not in FEW:
            continue
        idle = (await asyncio.to_thread(watch, SECONDS)).p99 if LONG else 0.0
        before = server.memory()
        async with attacked(client, namespace, attack) as sent:
            during = await asyncio.to_thread(watch, SECONDS)
        after = await asyncio.to_thread(watch, 2.0)
        if LONG:
            megabytes = [f"{size / 2**20:.0f}" for size in (before, during.most, after.most)]
            sys.stdout.write(
                f"| {title} | {sent[0] / 2**20:.1f} MiB | {' / '.join(megabytes)} MiB "
                f"| {idle * 1000:.1f} / {during.p99 * 1000:.1f} ms |\n"
            )
            assert during.p99 <= 3 * idle, title
        assert sent[0] > 100_000, f"{attack} was not made"
        assert during.most - before <= GROWTH, title
