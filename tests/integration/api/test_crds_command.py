"""`edgewise crds install`, as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from edgewise.domain import all_kinds
from edgewise.operator import DOMAINS


def edgewise(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "edgewise.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


def test_it_installs_and_may_be_repeated(api_server: Any, tmp_path: Path) -> None:
    for _ in range(2):
        done = edgewise(
            "crds", "install", "--kubeconfig", str(api_server.kubeconfig), home=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert f"{len(all_kinds(DOMAINS))} CRDs are installed and served" in done.stdout


def test_bad_input_gets_one_sentence_and_no_traceback(api_server: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("clusters:\n  - [\n")
    unreachable = tmp_path / "unreachable"
    text = api_server.kubeconfig.read_text()
    unreachable.write_text(text.replace(f"127.0.0.1:{api_server.port}", "127.0.0.1:1"))
    complaints = {
        "no kubeconfig was found": (),
        "there is no context 'x'": ("--kubeconfig", str(api_server.kubeconfig), "--context", "x"),
        "No such file": ("--kubeconfig", str(tmp_path / "nowhere")),
        "is not valid YAML (line": ("--kubeconfig", str(broken)),
        "the connection was refused": ("--kubeconfig", str(unreachable)),
    }
    for sentence, arguments in complaints.items():
        done = edgewise("crds", "install", *arguments, home=tmp_path)
        assert done.returncode != 0
        assert sentence in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
