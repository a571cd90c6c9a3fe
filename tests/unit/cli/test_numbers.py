"""Amounts that nobody can wait for are refused before anything is made."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from edgewise.cli.bench import commands as bench
from edgewise.cli.bench import join as bench_join
from edgewise.cli.bench import server as bench_server
from edgewise.cli.lazy import load
from edgewise.cli.main import COMMANDS


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
    ],
)
def test_no_amount(
    module: ModuleType, words: list[str], amount: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "temporary_cluster", lambda *_, **__: pytest.fail("started"))
    done = CliRunner().invoke(module.app, [*words, amount])
    assert done.exit_code == 2
    assert words[-1] in done.output


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        entry = getattr(command, "entries", {}).get(name)
        yield from commands(load(name, entry) if entry else inner, f"{path} {name}")


def test_every_option_that_is_an_amount_refuses_what_is_none() -> None:
    """Not by running them: a server that takes the option would not end."""
    options = [
        (path, option)
        for name, entry in COMMANDS.items()
        for path, command in commands(load(name, entry), name)
        for option in command.params
        if "float" in option.type.name
    ]
    assert {path for path, _ in options} >= {"server", "ping", "bench runtime"}
    lax = [(path, option.name) for path, option in options if option.callback is None]
    assert lax == []
