"""`edgewise demo tenancy` as a person sees it: it shows what it promises, and leaves nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.local.machines import processes

COMMAND = [sys.executable, "-m", "edgewise.cli", "demo", "tenancy"]
SAYS = (
    "acme and zoo work after",
    "into shop, her customer's, she does not see",
    "two namespaces of one tenant: TCP and UDP arrive",
    "core ↔ zoo, core ↔ shop: nothing arrives",
    "5 for the vendor, 4 for its team, 3 for its customer",
    "is refused: exceeded quota",
    "6 for a lab are too many",
    "the lab is there: 1+2+3+6",
    "is empty of others after",
    "a pod of zoo runs there, and nobody else's does",
    "it is everybody's again",
    "dan himself may not",
    "dan sees the pods of acme now",
    "their pods run on",
    "have the rights that they had",
    "All of it worked",
)
# For a machine on which others work too.
LONGEST_SECONDS = 240.0


@pytest.mark.root
def test_two_tenants_share_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(state))
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for sentence in SAYS:
        assert sentence in done.stdout, done.stdout
    acts = re.findall(r"^\[(\d)/(\d)\]", done.stdout, re.MULTILINE)
    assert [int(number) for number, _ in acts] == list(range(1, int(acts[0][1]) + 1))
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files + [p for p in processes.marked() if p.cluster.startswith(str(state))] == []
