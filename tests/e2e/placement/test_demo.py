"""`edgewise demo placement` as a person sees it: it shows what it promises, and leaves nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.local.machines import processes

COMMAND = [sys.executable, "-m", "edgewise.cli", "demo", "placement"]

SHARES = ""


@pytest.mark.root
def test_the_service_follows_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(state))
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,  # it is to take 90 seconds; tests run beside others
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "rome: 10 ms to demo-placement-1" in said
    assert re.search(r"it runs on demo-placement-[123], \d+ ms from rome", said)
    assert re.findall(r"after [\d.]+ s: demo-placement-(\d) at", said) == [
        "1",
        "3",
    ], said
    asked = re.findall(r"asked (\d+) times meanwhile, and (\d+) requests failed", said)
    assert len(asked) == 2
    assert all(int(requests) > 100 and failed == "0" for requests, failed in asked), asked
    assert "All of it worked" in said
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files + [p for p in processes.marked() if p.cluster.startswith(str(state))] == []
