"""Nothing stays behind, whatever is killed and whenever."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.local import clusters, faults, registry
from edgewise.local.clusters import LocalClusterSpec
from edgewise.local.layout import Home
from edgewise.local.machines import processes
from edgewise.testing.traces import Traces

SHARES = ""  # it starts clusters of its own, and kills them

pytestmark = pytest.mark.root

RUNS = 20 if os.environ.get("EDGEWISE_CHAOS") else 3
EDGEWISE = [sys.executable, "-m", "edgewise.cli"]


def eventually(check: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.05)
    return check()


def kill_managers(home: Home, *, standby_too: bool) -> None:
    for process in processes.of_cluster(home.path):
        if process.component == "manager" and ("-m" in process.argv or standby_too):
            processes.send(process, signal.SIGKILL)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(RUNS))
def test_down_after_kills_at_a_random_moment_of_up(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    chance = random.Random(seed)
    home = Home.of("doomed")
    log = (tmp_path / "up.log").open("wb")
    with Traces(home) as traces:
        up = subprocess.Popen(
            [*EDGEWISE, "local", "up", "--name", "doomed", "--nodes", "2"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        assert eventually(home.exists, 60)
        time.sleep(chance.uniform(0.0, 8.0))
        victims = chance.choice(["manager", "manager and standby", "up", "all"])
        if victims in ("up", "all"):
            up.kill()
        if victims != "up":
            kill_managers(home, standby_too=victims != "manager")
        time.sleep(chance.choice([0.0, 0.0, 0.3, 1.0]))
        down = subprocess.run(
            [*EDGEWISE, "local", "down", "--all"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        up.wait(timeout=30)
        log.close()
        assert down.returncode == 0, down.stderr
        # The kernel takes namespaces apart a moment after their last process.
        assert eventually(lambda: not traces.left(), 5), (victims, traces.left())
    assert not (tmp_path / "state").exists()


def test_down_finds_what_is_left_of_a_cluster_whose_folder_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    home = Home.of("deleted")
    with Traces(home) as traces:
        clusters.up(LocalClusterSpec(name="deleted", nodes=1))
        assert {kind for kind, _ in traces.seen} >= {"mnt", "net", "pid"}
        # Also what a reboot, or somebody in a hurry, takes away.
        registry.release(home)
        shutil.rmtree(home.path, ignore_errors=True)
        down = subprocess.run(
            [*EDGEWISE, "local", "down", "--all"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert down.returncode == 0, down.stderr
        assert eventually(lambda: not traces.left(), 5), traces.left()
    assert not (tmp_path / "state").exists()


def test_a_paused_and_cut_cluster_goes_down_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    home = Home.of("broken")
    with Traces(home) as traces:
        cluster = clusters.up(LocalClusterSpec(name="broken", nodes=1))
        for name in ("broken-1", "etcd", "manager"):
            faults.pause(cluster, name)
        faults.cut(cluster, None)
        clusters.down("broken")
        assert eventually(lambda: not traces.left(), 5), traces.left()
