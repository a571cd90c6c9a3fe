"""The demo as a person sees it: it shows what it promises, and leaves nothing."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise.local import processes

COMMAND = [sys.executable, "-m", "edgewise.cli", "demo"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clusters of these tests are kept apart from everybody's."""
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def left(state: Path) -> list[object]:
    files: list[object] = [path for path in state.rglob("*") if path.is_file()]
    return files + [p for p in processes.marked() if p.cluster.startswith(str(state))]


@pytest.mark.root
def test_without_a_terminal_it_ends_by_itself(state: Path) -> None:
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    for client in ("ann", "bob", "cleo"):
        assert f"{client} is at http://" in done.stdout
    assert "same pod, same address" in done.stdout
    assert "took over after" in done.stdout
    assert "dan was ready after" in done.stdout
    assert "why porto: porto: " in done.stdout
    for client in ("ann", "bob", "dan"):
        assert f"{client} is in paris, at http://" in done.stdout
    assert "knows that it has nobody any more" in done.stdout
    assert "no pod is left" in done.stdout
    assert "All of it worked" in done.stdout
    assert "Try next" in done.stdout
    assert left(state) == []


@pytest.mark.root
def test_at_a_terminal_it_stays_until_ctrl_c(state: Path) -> None:
    # Simulated, because what stays is the same.
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "--simulated"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        os.close(theirs)
        seen = read_until(ours, b"until you press Ctrl-C", running)
        assert b"All of it worked" in seen
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        seen += read_until(ours, b"nothing of them is left", running)
        assert running.wait(timeout=60) == 0
    os.close(ours)
    assert left(state) == []


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
