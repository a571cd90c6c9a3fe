"""`edgewise bench placement`, small: what it promises holds on four real nodes.

How long a search takes depends on who else uses the machine; that it finds the nearest node, that
no request fails and that there is always a replica does not.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.local.machines import processes

SHARES = ""

PARTS = ("search", "probe", "move", "sla")
COMMAND = [sys.executable, "-m", "edgewise.cli", "bench", "placement"]


@pytest.mark.root
def test_users_at_a_distance_do_not_notice_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(state))
    parts = [f"--part={part}" for part in PARTS]
    done = subprocess.run(
        [*COMMAND, "--nodes=4", "--sentinels=1,2", "--repeat=1", *parts],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["found_best"] == found["runs"] == 2, done.stderr
    assert (found["failed_requests"], found["kept_failed"]) == (0, 0), found
    assert found["requests"] > 500
    assert found["least_ready"] >= 1
    assert found["s1_overload_pct"] == 200
    assert found["s1_rounds"] == 3
    assert found["s2_rounds"] == 2
    # A search ends well before the paper's would, whoever else uses the machine.
    assert found["s1_mean_s"] < found["seed_model_s"]["s1"]
    assert found["probe_moves"] == 1, done.stderr
    assert found["probe_worse_requests"] == 0
    assert found["moved_s"] is not None, done.stderr
    assert found["sla_s"] <= found["s1_max_s"]
    assert [p for p in processes.marked() if p.cluster.startswith(str(state))] == []


def test_what_is_wrong_is_said_before_anything_starts() -> None:
    for arguments, complaint in (
        (["--sentinels=0"], "not a list of numbers from 1 to 9"),
        (["--sentinels=1,x"], "not a list of numbers"),
        (["--nodes=3", "--sentinels=3"], "not a list of numbers from 1 to 2"),
        (["--nodes=9", "--map=table1", "--sentinels=1"], "table1 has 8 distances"),
    ):
        done = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode != 0
        assert complaint in " ".join(done.stderr.split()), done.stderr
