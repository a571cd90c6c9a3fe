"""The demo as a person sees it: it shows what it promises, and leaves nothing."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
import urllib.request
from pathlib import Path

import pytest

from edgewise.local.machines import processes

COMMAND = [sys.executable, "-m", "edgewise.cli", "demo"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clusters of these tests are kept apart from everybody's."""
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def left(state: Path) -> list[object]:
    files: list[object] = [path for path in state.rglob("*") if path.is_file()]
    return files + [p for p in processes.marked() if p.cluster.startswith(str(state))]


def test_without_a_terminal_it_ends_by_itself(state: Path) -> None:
    # Simulated: what real nodes show is looked at below.
    done = subprocess.run(
        [*COMMAND, "--simulated"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "All of it worked" in done.stdout
    assert "Try next" in done.stdout
    assert left(state) == []


@pytest.mark.root
def test_at_a_terminal_it_stays_until_ctrl_c(state: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        COMMAND,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # So that a Ctrl-C is typed, and goes to every process that listens to the terminal.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads
    ) as running:
        os.close(theirs)
        said = read_until(ours, b"until you press Ctrl-C", running).decode().replace("\r", "")
        try:
            it_has_shown_what_it_promises(said)
            assert running.poll() is None
            what_it_says_to_try_next_works(said)
        finally:
            os.write(ours, b"\x03")  # also after a failure, else it is waited for in vain
        read_until(ours, b"nothing of them is left", running)
        assert running.wait(timeout=60) == 0
    os.close(ours)
    assert left(state) == []


def it_has_shown_what_it_promises(said: str) -> None:
    for client in ("ann", "bob", "cleo"):
        assert f"{client} is at http://" in said
    assert "same pod, same address" in said
    assert "took over after" in said
    assert "dan was ready after" in said
    assert "why porto: porto: " in said
    for client in ("ann", "bob", "dan"):
        assert f"{client} is in paris, at http://" in said
    assert "knows that it has nobody any more" in said
    assert "no pod is left" in said
    assert "All of it worked" in said


def what_it_says_to_try_next_works(said: str) -> None:
    (page, again) = re.findall(r"http://\S+/#token=(\S+)", said)
    assert page == again
    settings = re.search(r"export (EDGEWISE_SERVER=(\S+) EDGEWISE_TOKEN=\S+)", said)
    assert settings is not None
    watching = urllib.request.Request(  # noqa: S310 - our own server
        f"{settings[2]}/v1/events", headers={"Authorization": f"Bearer {page}"}
    )
    with urllib.request.urlopen(watching, timeout=20) as events:  # noqa: S310
        assert b"event: snapshot" in events.read(200)
    commands = re.findall(r"  edgewise (session .*)", said)
    assert [command.split()[1] for command in commands] == ["create", "join"]
    shown = ["session show room-2 --json"]
    for command in (*commands, *shown):
        done = subprocess.run(
            ["sh", "-c", f"{settings[1]} {sys.executable} -m edgewise.cli {command}"],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    you = json.loads(done.stdout)["clientsById"]["you"]
    assert (you["phase"], you["location"]) == ("Ready", "porto"), "it is nearer, and was measured"
    assert re.search(r"porto: \d+ ms away.* next best is paris at \d\d", you["message"])


def read_until(terminal: int, text: bytes, running: subprocess.Popen[bytes]) -> bytes:
    seen = b""
    deadline = time.monotonic() + 120
    while text not in seen:
        assert time.monotonic() < deadline, seen.decode()
        try:
            seen += os.read(terminal, 4096)
        except OSError as error:  # the other end was closed
            raise AssertionError(f"it ended early, {running.wait()}: {seen.decode()}") from error
    return seen


def test_what_it_cannot_show_is_a_failure(state: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--simulated"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
        env={**os.environ, "EDGEWISE_ENGINE_DIR": "/nowhere"},
    )
    assert done.returncode == 1
    assert "edgewise: the engine directory /nowhere does not exist" in done.stderr
    assert "Traceback" not in done.stderr
    assert "All of it worked" not in done.stdout
    assert left(state) == []


def test_asked_to_end_half_way_it_cleans_up(state: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--simulated"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        deadline = time.monotonic() + 60
        while not any(
            p.component == "etcd" for p in processes.of_cluster(state / "clusters/demo-porto")
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 128 + signal.SIGTERM, said
    assert left(state) == []
