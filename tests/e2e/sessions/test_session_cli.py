"""`edgewise session` as a person uses it, against a cluster where everything runs."""

import asyncio
import contextlib
import json
import os
import pty
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.cli.errors import sentence
from edgewise.cli.session import commands as command
from edgewise.kube.kinds.core import Pod
from edgewise.testing.eventually import eventually
from tests.e2e.sessions import workloads
from tests.e2e.sessions.conftest import Rooms
from tests.e2e.sessions.workloads import NAMESPACE

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]

PROGRAM = [sys.executable, "-m", "edgewise.cli", "session"]


class Shell:
    """Runs the commands in this process, which is faster than to start Python each time."""

    def __init__(self, kubeconfig: Path) -> None:
        self.options = ["--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]

    async def run(self, *arguments: str) -> str:
        done = await self._invoke(arguments)
        assert done.exception is None, sentence(done.exception)
        return str(done.stdout)

    async def fails(self, *arguments: str) -> str:
        done = await self._invoke(arguments)
        assert done.exception is not None, done.stdout
        return sentence(done.exception)

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self.run(*arguments, "--json"))

    async def _invoke(self, arguments: tuple[str, ...]) -> Any:
        line = [*arguments, *self.options]
        return await asyncio.to_thread(CliRunner().invoke, command.app, line)


@pytest.fixture
def shell(rooms: Rooms) -> Shell:
    return Shell(rooms.cluster.kubeconfig)


async def test_the_life_of_a_session(rooms: Rooms, shell: Shell) -> None:
    spec = {"timeoutSeconds": 600, "reutilizeTimeoutSeconds": 600}
    await rooms.client.apply(workloads.template("by-hand", **spec))
    assert "by-hand" in await shell.run("templates")
    assert "by-hand" in [each["name"] for each in await shell.json("templates")]

    assert await shell.run("create", "life", "--template", "by-hand") == "session life created\n"
    again = await shell.json("create", "life", "--template", "by-hand")
    assert again == {"name": "life", "created": False}

    said = await shell.run("join", "life", "ann", "--wait")
    first, endpoint = said.splitlines()
    assert first.startswith("ann is ready in session life after ")
    name, url = endpoint.split()
    assert name == "server/http"
    pod = (await rooms.ask(url))["pod"]
    # Once more is fine, and nothing changes by it.
    assert await shell.run("join", "life", "ann") == "ann is in life already\n"
    assert await shell.run("join", "life", "ann", "--url") == f"{url}\n"
    has = await shell.json("join", "life", "ann", "--wait")
    assert (has["ready"], has["pods"], has["endpoints"]) == (
        True,
        {"server": pod},
        {"server": {"http": url}},
    )

    header, row = (await shell.run("list")).splitlines()
    assert header.split() == ["NAME", "TEMPLATE", "CLIENTS", "READY", "DISCONNECTED", "PODS", "AGE"]
    assert row.split()[:6] == ["life", "by-hand", "1", "1", "0", "1"]
    [everywhere] = [each for each in await shell.json("list", "-A") if each["name"] == "life"]
    assert (everywhere["namespace"], everywhere["ready"]) == (NAMESPACE, 1)
    shown = await shell.run("show", "life")
    assert f"ann      Ready   {pod}   server/http {url}" in shown
    assert "ClientsReady   True" in shown

    await shell.run("disconnect", "life", "ann")
    await rooms.until("life", "ann", lambda has: has.phase == "Disconnected")
    shown = await shell.run("show", "life")
    assert "Disconnected (9m left)" in shown
    assert (await shell.json("show", "life"))["disconnected"] == 1
    assert await shell.run("join", "life", "ann", "--url") == f"{url}\n"

    assert await shell.run("leave", "life", "ann") == "ann left session life\n"
    assert await shell.run("leave", "life", "ann") == "ann is not in session life\n"
    await rooms.idle("life", pod)
    assert "WaitForReuse (9m left)" in await shell.run("show", "life")
    gone = await shell.run("delete", "life", "--wait")
    assert gone.startswith("session life deleted; nothing is left of it after ")
    left = (await rooms.client.list(Pod, NAMESPACE)).items
    assert [pod.metadata.name for pod in left if pod.metadata.name.startswith("life-")] == []
    await rooms.client.delete(SessionTemplate, "by-hand", NAMESPACE)


async def test_a_session_from_a_file(rooms: Rooms, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    manifest = workloads.session("filed", "none")
    manifest["spec"] = {"podTemplates": [workloads.pods()]}
    file.write_text(json.dumps(manifest))
    assert await shell.run("create", "--file", str(file)) == "session filed created\n"
    assert await shell.run("create", "--file", str(file)) == "session filed is there already\n"
    manifest["spec"]["timeoutSeconds"] = 5
    file.write_text(json.dumps(manifest))
    assert "which is made differently" in await shell.fails("create", "--file", str(file))
    assert "<inline>" in await shell.run("list")
    await rooms.client.delete(Session, "filed", NAMESPACE)


async def test_what_cannot_be_is_said_in_a_sentence(rooms: Rooms, shell: Shell) -> None:
    await rooms.make("small", maxClients=1)
    assert await shell.fails("create", "x", "--template", "big") == (
        "there is no template big in namespace rooms: it has small"
    )
    for line in (["show", "smal"], ["join", "smal", "ann"], ["delete", "smal"], ["watch", "smal"]):
        assert (
            await shell.fails(*line) == "there is no session smal in namespace rooms: it has small"
        )
    assert (
        await shell.fails("disconnect", "small", "ann")
        == "ann is not in session small: it is empty"
    )
    await shell.run("join", "small", "ann", "--wait")
    refused = await shell.fails("join", "small", "bob", "--wait")
    assert "1" in refused
    assert "maxClients" in refused
    assert "bob is not in session small: its clients are ann" in await shell.fails(
        "disconnect", "small", "bob"
    )
    shell.options[-1] = "nowhere"
    said = await shell.fails("join", "small", "ann")
    assert said == "there is no session small in namespace nowhere: it has no sessions at all"
    await rooms.delete("small")


async def test_without_an_operator_clients_join_and_wait_and_nothing_else_is_taken(
    rooms: Rooms, shell: Shell
) -> None:
    await rooms.make("alone")
    await rooms.platform.operator.stop()
    try:
        assert await shell.run("join", "alone", "ann") == "ann joined session alone\n"
        assert await shell.run("join", "alone", "bob") == "bob joined session alone\n"
        assert "left" in await shell.run("leave", "alone", "bob")
        waits = await shell.fails("join", "alone", "ann", "--wait", "--timeout", "1")
        refused = await shell.fails("create", "second", "--template", "alone")
    finally:
        await rooms.platform.operator.start()
    assert "is not ready after 1 s: no operator is running" in waits
    assert refused.startswith("nobody is there to check what you ask for; no operator is running")
    assert refused.endswith("start one with `edgewise local platform` or `edgewise operator`")
    await shell.run("join", "alone", "ann", "--wait")
    await rooms.delete("alone")


async def test_watching_without_a_terminal_tells_each_change(rooms: Rooms, shell: Shell) -> None:
    await rooms.make("seen", timeoutSeconds=600)
    lines: list[str] = []
    running = await asyncio.create_subprocess_exec(
        *PROGRAM, "watch", "seen", *shell.options, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    stdout = running.stdout

    async def until_said(text: str) -> None:
        async with asyncio.timeout(30):
            while not any(text in line for line in lines):
                line = await stdout.readline()
                assert line, lines
                lines.append(line.decode())

    await until_said("seen: 0 clients, 0 ready")
    [ann] = await rooms.join("seen", "ann")
    await until_said(f"seen/ann: Ready in {ann.pods['server']} http://")
    await rooms.say("seen", {"ann": False})
    await until_said("seen/ann: Disconnected in")
    await rooms.leave("seen", "ann")
    await until_said("seen/ann: left")
    await rooms.delete("seen")
    await until_said("seen: deleted")
    assert await asyncio.wait_for(running.wait(), 10) == 0


async def test_watching_at_a_terminal_ends_with_ctrl_c(rooms: Rooms, shell: Shell) -> None:
    await rooms.make("live")
    ours, theirs = pty.openpty()
    running = await asyncio.create_subprocess_exec(
        *PROGRAM, "watch", *shell.options, stdout=theirs, stderr=asyncio.subprocess.PIPE
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = b""

    def shows(text: bytes) -> bool:
        nonlocal seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(ours, 65536)
        return text in seen

    await eventually(lambda: shows(b"live"), within=30, every=0.05)
    await rooms.client.apply(workloads.session("live-2", "live"))
    await eventually(lambda: shows(b"live-2"), within=30, every=0.05)
    running.send_signal(signal.SIGINT)
    _, errors = await asyncio.wait_for(running.communicate(), 10)
    os.close(ours)
    assert (running.returncode, errors) == (130, b"")
    await rooms.remove("live-2")
    await rooms.delete("live")
