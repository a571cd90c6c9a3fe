"""`edgewise bench`: what is the same for all, and `runtime` on a cluster that somebody names."""

import importlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgewise.bench.machine_load import MachineLoad
from edgewise.cli.bench import commands as bench
from edgewise.cli.bench import storing
from edgewise.cli.entry import benches_of
from edgewise.cli.main import ENTRIES
from edgewise.kube.config import ConfigError

KUBECONFIG = """
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: one, context: {cluster: one, user: ""}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return str(path)


def test_the_context_that_the_error_advises_can_be_given(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bench.RuntimeBench] = []

    async def run(self: bench.RuntimeBench) -> dict[str, str]:
        seen.append(self)
        return {}

    monkeypatch.setattr(bench.RuntimeBench, "run", run)
    words = ["runtime", "--kubeconfig", kubeconfig]
    done = CliRunner().invoke(bench.app, words)
    assert isinstance(done.exception, ConfigError)
    assert "--context" in str(done.exception)
    assert not seen
    done = CliRunner().invoke(bench.app, [*words, "--context", "one"])
    assert done.exit_code == 0
    assert seen[0].context == "one"


def test_every_bench_says_what_the_host_took_and_keeps_it_with_its_figures(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run(_: bench.RuntimeBench) -> dict[str, object]:
        return {"p50": 1, "machine": {"floor": {"stolen_percent": 0.5}}}

    monkeypatch.setattr(bench.RuntimeBench, "run", run)
    monkeypatch.setenv(storing.RESULTS, str(tmp_path))
    loads = iter([MachineLoad(0, 0, 0), MachineLoad(1000, 500, 25)])
    monkeypatch.setattr(storing.MachineLoad, "now", lambda: next(loads))
    words = ["runtime", "--kubeconfig", kubeconfig, "--context", "one"]
    done = CliRunner().invoke(bench.app, words)
    told = json.loads(done.stdout)
    assert told["p50"] == 1
    assert told["machine"].keys() > {"cores", "memory_gb", "system"}
    assert told["machine"]["stolen_percent"] == 2.5
    assert told["machine"]["busy_percent"] == 47.5
    assert told["machine"]["floor"] == {"stolen_percent": 0.5}  # what a bench knows in parts
    assert "gave 2.5 % of this machine to others" in done.stderr
    (kept,) = (tmp_path / "runtime").glob("*.json")
    assert json.loads(kept.read_text())["figures"] == told


MEASURE_NOTHING = {"report", "trace"}


def test_no_bench_ends_without_it() -> None:
    benches = {"runtime": bench.__name__} | {
        name: command.module
        for name, command in benches_of(ENTRIES).items()
        if name not in MEASURE_NOTHING
    }
    assert len(benches) >= 6
    for name, module in benches.items():
        held = vars(importlib.import_module(module))
        ends = {held.get("finish"), held.get("machine")}
        assert ends & {storing.finish, storing.machine}, f"bench {name}"


def test_a_context_needs_its_file() -> None:
    done = CliRunner().invoke(bench.app, ["runtime", "--context", "one"])
    assert done.exit_code == 2
