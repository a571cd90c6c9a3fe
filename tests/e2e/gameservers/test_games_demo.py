"""The demo of games as a person sees it: real pods, real players, and nothing left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.local.machines import processes

COMMAND = [sys.executable, "-m", "edgewise.cli", "demo", "games"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clusters of these tests are kept apart from everybody's."""
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def left(state: Path) -> list[object]:
    files: list[object] = [path for path in state.rglob("*") if path.is_file()]
    return files + [p for p in processes.marked() if p.cluster.startswith(str(state))]


@pytest.mark.root
def test_players_play_on_while_the_version_changes_and_a_server_is_drained(state: Path) -> None:
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,  # it is to take a minute; tests run beside others
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    for player in ("ann", "bob"):
        assert f"{player} got " in said
    assert "new matches go to the new version" in said
    assert "It is asked to end: spec.operation is Retire." in said
    assert "cleo left with" in said
    assert "one match: three servers" in said
    assert "no pod is left" in said
    assert "All of it worked" in said
    assert left(state) == []


def test_without_an_engine_it_is_a_failure(state: Path) -> None:
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
        env={**os.environ, "EDGEWISE_ENGINE_DIR": "/nowhere"},
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("edgewise: ")
    assert "Traceback" not in done.stderr
    assert "All of it worked" not in done.stdout
    assert left(state) == []
