"""`edgewise bench fleet`, small, as a person runs it: its figures have their names."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clusters of these tests are kept apart from everybody's."""
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def bench(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "edgewise.cli", "bench", "fleet", "--runs", "1", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


@pytest.mark.root
def test_a_fleet_goes_up_and_down_beside_bare_pods(state: Path) -> None:
    figures = bench("--servers", "10", "--down")
    assert {"fleet_s", "bare_s", "ratio", "cpu_ratio", "down_s", "bare_down_s"} < set(figures)
    # Create, create, status; and a few for the fleet itself.
    assert 3 <= figures["writes_per_server"] <= 4
    # Delete it and its pod, and let it go; one list takes them all.
    assert 3 <= figures["writes_per_removal"] <= 4
    assert figures["conflicts"] <= 0.1


@pytest.mark.root
def test_the_floor_of_the_design_is_the_same_writes_without_an_operator(state: Path) -> None:
    figures = bench("--servers", "10", "--sketch")
    assert (figures["writes_per_server"], figures["writes_per_removal"]) == (3, 3)
    assert figures["ratio"] > 0
    assert figures["cpu_ratio"] > 0
