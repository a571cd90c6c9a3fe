"""What only some commands need is missed by those alone, and in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edgewise.cli.errors import _EXTRAS

# As if these packages were not installed.
PROGRAM = """
import sys

MISSING = frozenset(sys.argv.pop(1).split(","))


class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Missing)
from edgewise.cli.main import main

main()
"""
ALL = ",".join(_EXTRAS)


def run(missing: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, missing, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


NEEDS = {
    "server": (("server", "--kubeconfig", "/nonexistent"), "server"),
    "gateway": (("gateway", "--help"), "gateway"),
    "reports": (("reports", "--help"), "mqtt"),
}


@pytest.mark.parametrize("command", NEEDS)
def test_without_its_extra_a_command_says_what_to_install(command: str) -> None:
    words, extra = NEEDS[command]
    done = run(ALL, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("edgewise: this needs the package ")
    assert done.stderr.endswith(f": install edgewise[{extra}]\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("operator", "--help"),
        ("session", "join", "--help"),
        ("cluster", "add", "--help"),
        ("token", "create", "--help"),
        ("game", "list", "--help"),
        ("placement", "list", "--help"),
        ("tenant", "list", "--help"),
        ("local", "up", "--help"),
        ("ping", "--help"),
        ("crds", "--help"),
    ],
    ids=" ".join,
)
def test_without_any_extra_the_others_work(words: tuple[str, ...]) -> None:
    done = run(ALL, *words)
    assert (done.returncode, done.stderr) == (0, "")
