"""`edgewise bench runtime` on a cluster that somebody names."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgewise.cli.bench import commands as bench
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


def test_a_context_needs_its_file() -> None:
    done = CliRunner().invoke(bench.app, ["runtime", "--context", "one"])
    assert done.exit_code == 2
