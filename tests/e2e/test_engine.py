"""The engine for real: a program is built from its pinned module, and it works."""

import os
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from edgewise.local.engine.finding import find_engine
from edgewise.local.engine.pins import read_pins, source_directory

ROOT = Path(__file__).parents[2]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Go's own cache stays where it was: the standard library need not be compiled again.
    monkeypatch.setenv("GOCACHE", os.environ.get("GOCACHE", str(Path.home() / ".cache/go-build")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EDGEWISE_ENGINE_DIR", raising=False)
    return find_engine(programs=["init"]).path("init")


def test_init_is_built_static_and_ends_when_asked(init: Path) -> None:
    assert b"/ld-linux" not in init.read_bytes()  # a pod's image has no loader
    with subprocess.Popen([init]) as running:
        time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=10) in (0, -signal.SIGTERM)


def test_the_wheel_carries_the_modules(tmp_path: Path) -> None:
    subprocess.run(
        ["hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"},
    )
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    carried = tmp_path / "unpacked" / "edgewise" / "local" / "engine" / "engine_modules"
    assert read_pins(carried).key == read_pins(source_directory()).key
    assert (carried / "go.lock").is_file()
