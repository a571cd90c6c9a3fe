"""`edgewise gateway` as a program: fed by a real API server, killed, and followed by another."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from edgewise.api.exposure import Port
from edgewise.api.installation import install
from edgewise.api.sessions import ClientStatus, PodTemplate, Revision, Session, SessionSpec
from edgewise.kube.client import Client, Patch
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Namespace
from edgewise.testing.eventually import eventually
from edgewise.testing.gateway_rig import LOOPBACK, UdpClient
from edgewise.testing.ports import free_port

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = secrets.token_hex(16)
UDP_PORT = 21391


class Program:
    """The gateway in a process of its own."""

    def __init__(self, api_server, run_dir, http):
        self.run_dir, self.http = run_dir, http
        self.http_port, self.control_port = free_port(), free_port()
        self.url = f"http://{LOOPBACK}:{self.http_port}"
        token = run_dir / "token"
        token.write_text(TOKEN)
        self.arguments = [
            "gateway",
            f"--bind={LOOPBACK}",
            f"--http-port={self.http_port}",
            f"--control={LOOPBACK}:{self.control_port}",
            "--ports=21390-21399",
            f"--token-file={token}",
            f"--run-dir={run_dir}",
            f"--kubeconfig={api_server.kubeconfig}",
            "--allow-local-targets",
            "--workers=2",
            "--drain-seconds=1",
        ]
        self.processes = []

    async def start(self, *more):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "edgewise.cli", *self.arguments, *more
        )
        self.processes.append(process)
        return process

    async def readiness(self):
        try:
            async with self.http.get(f"http://{LOOPBACK}:{self.control_port}/readyz") as answer:
                return await answer.text()
        except OSError:
            return "not there"

    async def ready(self):
        async def is_ready():
            return await self.readiness() == "ok\n"

        await eventually(is_ready, within=30)

    def envoy_pid(self):
        return msgspec.json.decode((self.run_dir / "envoy.pid.json").read_bytes())["pid"]

    async def clean(self):
        with contextlib.suppress(OSError, ValueError):
            os.kill(self.envoy_pid(), signal.SIGKILL)
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


def exists(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and ") Z " not in stat.read_text()


@pytest_asyncio.fixture(loop_scope="module")
async def program(api_server, run_dir, http):
    program = Program(api_server, run_dir, http)
    yield program
    await program.clean()


@pytest_asyncio.fixture(loop_scope="module")
async def sessions(api_server):
    async with Client(load_access(api_server.kubeconfig)) as client:
        await install(client, [Session])
        yield Sessions(client)
        for name, namespace in Sessions.made:
            await client.delete(Session, name, namespace)
        Sessions.made.clear()


class Sessions:
    """Writes sessions the way the operator does."""

    made: list = []

    def __init__(self, client):
        self.client = client

    async def create(self, name="s"):
        namespace = f"gw-{secrets.token_hex(4)}"
        await self.client.create(Namespace.named(namespace))
        spec = SessionSpec(pod_templates=[PodTemplate(name="app", template={"spec": {}})])
        await self.client.create(Session.named(name, namespace, spec=spec), namespace)
        self.made.append((name, namespace))
        return name, namespace

    async def seat(self, key, pod, seat):
        clients = {
            "alice": ClientStatus(
                ready=True,
                pods={"app": "p1"},
                endpoints={
                    "app": {
                        "http": f"http://gw/s/{seat}/http/",
                        "udp": f"udp://gw:{UDP_PORT}",
                    }
                },
            )
        }
        ports = [
            Port(name="http", port=pod.ports["HTTP"]),
            Port(name="udp", port=pod.ports["UDP"], protocol="UDP"),
        ]
        revision = Revision(pod_template="app", exposure="Gateway", ports=ports)
        status = {
            "clients": msgspec.to_builtins(clients),
            "pods": {"r1": {"p1": LOOPBACK}},
            "revisions": {"r1": msgspec.to_builtins(revision)},
        }
        await self.client.patch(
            Session, *key, body={"status": status}, type=Patch.MERGE, subresource="status"
        )

    async def leave(self, key):
        await self.client.patch(
            Session,
            *key,
            body={"status": {"clients": None}},
            type=Patch.MERGE,
            subresource="status",
        )


async def test_the_program_serves_what_sessions_say(program, sessions, pods, http):
    pod = await pods("a")
    key = await sessions.create()
    await sessions.seat(key, pod, "seata")
    process = await program.start()
    await program.ready()
    async with http.get(f"{program.url}/s/seata/http/x") as answer:
        assert (await answer.json())["path"] == "/x"
    client = await UdpClient.open(UDP_PORT)
    assert await client.ask("hi") == "a hi"
    client.close()

    await sessions.leave(key)

    async def is_gone():
        async with http.get(f"{program.url}/s/seata/http/x") as answer:
            return answer.status == 404

    await eventually(is_gone)

    pid = program.envoy_pid()
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert not exists(pid)


async def test_a_killed_program_leaves_envoy_to_the_next_one(program, sessions, pods, http):
    pod = await pods("a")
    key = await sessions.create()
    await sessions.seat(key, pod, "seatb")
    first = await program.start()
    await program.ready()
    pid = program.envoy_pid()
    async with http.ws_connect(f"{program.url}/s/seatb/http/") as chat:
        first.kill()
        await first.wait()
        await chat.send_str("alone")
        assert await chat.receive_str(timeout=30) == "a alone"

        second = await program.start()
        await program.ready()
        assert program.envoy_pid() == pid
        await chat.send_str("again")
        assert await chat.receive_str(timeout=30) == "a again"
    second.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(second.wait(), 20) == 0
    assert not exists(pid)


async def test_told_to_end_twice_it_ends_at_once_and_envoy_with_it(program, sessions, pods, http):
    pod = await pods("a")
    key = await sessions.create()
    await sessions.seat(key, pod, "seate")
    process = await program.start("--drain-seconds=60")
    await program.ready()
    pid = program.envoy_pid()
    async with http.ws_connect(f"{program.url}/s/seate/http/"):
        process.send_signal(signal.SIGINT)

        async def is_leaving():
            return "shutting down" in await program.readiness()

        await eventually(is_leaving)
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 10)
    assert not exists(pid)


async def test_agent_and_envoy_in_two_processes(program, sessions, pods, http):
    """As in the pods of the chart: either may restart without the other."""
    pod = await pods("a")
    key = await sessions.create()
    await sessions.seat(key, pod, "seatc")
    envoy = await program.start("--envoy=only")
    agent = await program.start("--envoy=elsewhere")
    await program.ready()
    async with http.ws_connect(f"{program.url}/s/seatc/http/") as chat:
        agent.kill()
        await agent.wait()
        await chat.send_str("alone")
        assert await chat.receive_str(timeout=30) == "a alone"
    agent = await program.start("--envoy=elsewhere")
    await program.ready()

    pid = program.envoy_pid()
    envoy.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(envoy.wait(), 20) == 0
    assert not exists(pid)

    async def is_lost():
        return "no Envoy" in await program.readiness()

    await eventually(is_lost)
    await program.start("--envoy=only")
    await program.ready()
    async with http.get(f"{program.url}/s/seatc/http/") as answer:
        assert answer.status == 200


async def test_an_api_server_that_is_down_takes_nothing_away(
    program, sessions, api_server, pods, http
):
    pod = await pods("a")
    key = await sessions.create()
    await sessions.seat(key, pod, "seatd")
    await program.start()
    await program.ready()
    await asyncio.to_thread(api_server.stop_api_server)
    try:
        async with http.get(f"{program.url}/s/seatd/http/") as answer:
            assert answer.status == 200
        assert await program.readiness() == "ok\n"
    finally:
        await asyncio.to_thread(api_server.start_api_server)
    await sessions.leave(key)

    async def is_gone():
        async with http.get(f"{program.url}/s/seatd/http/") as answer:
            return answer.status == 404

    await eventually(is_gone, within=40)


async def test_two_programs_cannot_share_a_directory(program, sessions):
    await program.start()
    await program.ready()
    second = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "edgewise.cli",
        *program.arguments,
        stderr=asyncio.subprocess.PIPE,
    )
    program.processes.append(second)
    _, text = await asyncio.wait_for(second.communicate(), 20)
    assert second.returncode == 1
    assert "another gateway runs in" in text.decode()
    assert "Traceback" not in text.decode()


async def test_a_port_that_is_taken_is_said_and_not_called_ready(program, sessions):
    with socket.socket() as other:
        other.bind((LOOPBACK, program.http_port))
        other.listen()
        await program.start()

        async def says_so():
            return "cannot open its entry point" in await program.readiness()

        await eventually(says_so, within=30)
