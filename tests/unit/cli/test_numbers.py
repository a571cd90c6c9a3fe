"""Amounts that nobody can wait for are refused before anything is made."""

from types import ModuleType

import pytest
from typer.testing import CliRunner

from edgewise.cli import bench, bench_join, bench_server, ping, server


@pytest.mark.parametrize("amount", ["nan", "inf", "-inf", "1e300"])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (bench, ["runtime", "--rate"]),
        (bench, ["runtime", "--seconds"]),
        (bench_join, ["--simulated", "--rate"]),
        (bench_join, ["--simulated", "--seconds"]),
        (bench_server, ["--rate"]),
        (bench_server, ["--seconds"]),
        (ping, ["--per-caller"]),
        (server, ["--lost-after"]),
    ],
)
def test_no_amount(
    module: ModuleType, words: list[str], amount: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hasattr(module, "temporary_cluster"):
        monkeypatch.setattr(module, "temporary_cluster", lambda *_, **__: pytest.fail("started"))
    done = CliRunner().invoke(module.app, [*words, amount])
    assert done.exit_code == 2
    assert words[-1] in done.output
