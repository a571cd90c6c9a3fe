"""Options that several commands share are options of each of them."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from edgewise.cli.options import with_options


@dataclasses.dataclass(frozen=True)
class Place:
    shelf: Annotated[str, typer.Option("--shelf", "-s", help="Which shelf.")] = "lower"
    row: Annotated[int | None, typer.Option(help="Which row.", envvar="ROW")] = None


app = typer.Typer()


@app.command()
@with_options("at", Place)
def put(
    toy: Annotated[str, typer.Argument()],
    often: Annotated[int, typer.Option()] = 1,
    *,
    at: Place,
    quiet: Annotated[bool, typer.Option("--quiet")] = False,
) -> None:
    """Put it away."""
    typer.echo(f"{toy} {often} {at} {quiet}")


@app.command("find")
@with_options("at", Place)
def look_for(*, at: Place) -> None:
    """Look for it."""
    typer.echo(str(at))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["put", "ball"], "ball 1 Place(shelf='lower', row=None) False"),
        (
            ["put", "ball", "--often", "2", "-s", "upper", "--row", "3", "--quiet"],
            "ball 2 Place(shelf='upper', row=3) True",
        ),
        (["find", "--row", "7"], "Place(shelf='lower', row=7)"),
    ],
)
def test_they_come_as_one_value(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.output == f"{said}\n"


def test_the_environment_says_them_too() -> None:
    done = CliRunner().invoke(app, ["find"], env={"ROW": "5"}, catch_exceptions=False)
    assert "row=5" in done.output


def test_the_help_lists_them_where_the_command_has_them() -> None:
    said = CliRunner().invoke(app, ["put", "--help"], env={"COLUMNS": "120"}).output
    assert "Put it away." in said
    places = [said.index(word) for word in ("--often", "--shelf", "Which row.", "--quiet")]
    assert places == sorted(places)


def test_what_is_wrong_is_refused() -> None:
    done = CliRunner().invoke(app, ["find", "--row", "seven"])
    assert done.exit_code == 2
