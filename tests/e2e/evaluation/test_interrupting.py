"""Ctrl-C in the middle of a run: nothing goes on, and what was measured is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise.bench.evaluation.records import Kind
from edgewise.bench.evaluation.results import RunFolder
from edgewise.bench.evaluation.trace import Do, Event, Trace, written
from edgewise.local.machines import processes

SHARES = ""  # the command makes a cluster of its own

pytestmark = pytest.mark.root

TRACE = Trace(
    preset="endless",
    seed=1,
    seconds=900,
    events=(
        Event(at=0, do=Do.CREATE_SESSION, session="s1"),
        Event(at=0, do=Do.CREATE_CLIENT, session="s1", client="c1"),
    ),
)


@pytest.mark.timeout(600)
def test_an_interrupted_run_keeps_what_it_has_and_leaves_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "endless.jsonl"
    trace.write_bytes(written(TRACE))
    folder = RunFolder(tmp_path / "run")
    state = tmp_path / "state"
    words = ["bench", "run", "--case", "bare", "--trace", str(trace), "--nodes", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "edgewise.cli", *words, "-o", str(folder.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"EDGEWISE_STATE_DIR": str(state)},
    ) as running:
        end = time.monotonic() + 300
        while not connected(folder) and running.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
        there = list((state / "clusters").glob("*"))
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=180)
    assert running.returncode == 130, told.decode()
    assert b"Traceback" not in told
    assert connected(folder), told.decode()
    assert not folder.is_done("bare")
    assert not [each for each in processes.marked() if each.cluster.startswith(str(state))]
    assert there
    assert not list((state / "clusters").glob("*"))


def connected(folder: RunFolder) -> bool:
    return any(each.kind is Kind.CONNECT for each in folder.records("bare"))
