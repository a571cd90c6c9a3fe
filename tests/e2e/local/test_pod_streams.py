"""Logs, exec and port-forward, through a real kubelet into a real container."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from edgewise.kube import errors
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.testing.eventually import eventually

pytestmark = pytest.mark.root

SERVER = (
    "import http.server; print('up', flush=True); "
    "http.server.test(http.server.SimpleHTTPRequestHandler, port=8080)"
)


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with cluster.client() as connected, asyncio.timeout(120):
        container = {"name": "main", "image": PYTHON_IMAGE, "command": ["python3", "-c", SERVER]}
        await connected.apply(
            Pod.named(
                "streams",
                "default",
                spec={"containers": [container], "terminationGracePeriodSeconds": 0},
            )
        )

        async def it_serves() -> bool:
            ready = (await connected.get(Pod, "streams", "default")).ready
            return ready and "Serving" in await connected.logs("streams", "default")

        await eventually(it_serves, within=60, every=0.2)
        yield connected


async def test_a_command_gets_its_input_and_gives_its_outputs_and_its_exit_code(
    client: Client,
) -> None:
    program = (
        "import sys; print(sys.stdin.read().upper(), end=''); "
        "print('oh', end='', file=sys.stderr); sys.exit(3)"
    )
    result = await client.exec("streams", "default", ["python3", "-c", program], stdin=b"hello")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"HELLO", b"oh")


async def test_megabytes_pass_through_a_command(client: Client) -> None:
    text = b"x" * 3_000_000
    result = await client.exec("streams", "default", ["cat"], stdin=text)
    assert (result.exit_code, result.stdout) == (0, text)


async def test_a_terminal_has_the_size_it_was_given(client: Client) -> None:
    async with client.exec_stream("streams", "default", ["sh"], stdin=True, tty=True) as stream:
        await stream.resize(100, 40)
        await stream.send(b"stty size; exit 4\n")
        output = b"".join([data async for _, data in stream])
    assert b"40 100" in output
    assert stream.exit_code == 4


async def test_what_cannot_be_run_is_told(client: Client) -> None:
    with pytest.raises(errors.ServerError, match="no-such-program"):
        await client.exec("streams", "default", ["no-such-program"])
    with pytest.raises(errors.NotFound, match='pods "nobody" not found'):
        await client.exec("nobody", "default", ["true"])


async def test_a_forwarded_port_leads_into_the_pod_and_its_log_tells(client: Client) -> None:
    async with client.port_forward("streams", "default", 8080) as stream:
        await stream.send(b"GET /through-the-port HTTP/1.0\r\n\r\n")
        answer = b"".join([data async for data in stream])
    assert answer.startswith(b"HTTP/1.0 404")
    async for line in client.follow_logs("streams", "default", tail=100):
        if "/through-the-port" in line:
            break


async def test_a_port_that_nobody_listens_on_is_told(client: Client) -> None:
    with pytest.raises(errors.ApiError, match="connection refused"):
        async with client.port_forward("streams", "default", 9) as stream:
            [data async for data in stream]
