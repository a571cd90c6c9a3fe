"""`edgewise bench tenancy` says what it promises, in its last line, as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

LONGEST_SECONDS = 240.0
COMMAND = ("bench", "tenancy", "--tenants", "2", "--pods", "8", "--over", "2", "--rounds", "1")


def test_the_last_line_has_the_figures(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgewise.cli", *COMMAND],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LONGEST_SECONDS,
        check=False,
        env={**os.environ, "EDGEWISE_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    tenants, pods = figures["tenants"]["2"], figures["pods"]["8"]
    for name in ("establish_s", "bare_s", "usable_s"):
        assert 0 < tenants[name]["p50"] <= tenants[name]["max"], name
    for name in ("ratio_p50", "all_s", "bare_all_s", "ratio"):
        assert tenants[name] > 0, name
    # A namespace, its network policy, its binding and a status; nothing is written twice.
    assert 4 <= tenants["writes_per_tenant"] <= 7
    for name in ("pods_s", "bare_pods_s", "ratio"):
        assert pods[name] > 0, name
