"""What domains add to the command line: a toy is handed to it, and nothing of it is edited."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from edgewise.cli.entry import Entry, TakenName
from edgewise.cli.lazy import LazyCommand, load
from edgewise.cli.main import COMMANDS, ENTRIES, build, commands_of

PROGRAM = """
from edgewise.cli.entry import Entry
from edgewise.cli.lazy import LazyCommand
from edgewise.cli.main import ENTRIES, commands_of, main

TOY = Entry(
    domain="toys",
    commands={"toy": LazyCommand("made_up_toy", "Play with a toy.")},
    demo=LazyCommand("made_up_toy_demo", "A toy at work.", single=True),
    bench={"toy": LazyCommand("made_up_toy_bench", "How fast a toy is.", single=True)},
)
main(commands_of((*ENTRIES, TOY)))
"""

MODULES = {
    "made_up_toy": """
        import typer
        app = typer.Typer()
        @app.command()
        def wind(turns: int = 1): print("wound", turns)
        @app.command()
        def stop(): print("stopped")
        """,
    "made_up_toy_demo": """
        import typer
        app = typer.Typer()
        @app.command()
        def demo(loud: bool = False): print("a toy at work, loud:", loud)
        """,
    "made_up_toy_bench": """
        import typer
        app = typer.Typer()
        @app.command()
        def bench(rounds: int = 1): print("measured", rounds)
        """,
}


@pytest.fixture
def run(tmp_path: Path):
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))

    def run(*args: str, program: str = PROGRAM, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *args],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "100", **env},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("toy", "wind", "--turns", "3"), "wound 3\n"),
        (("bench", "toy", "--rounds", "7"), "measured 7\n"),
        (("demo", "toys", "--loud"), "a toy at work, loud: True\n"),
    ],
)
def test_a_toy_has_commands_a_demo_and_a_bench(run, args: tuple[str, ...], said: str) -> None:
    done = run(*args)
    assert (done.returncode, done.stdout) == (0, said), done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("edgewise ", {"toy", "session", "bench"}),
        ("edgewise toy ", {"wind", "stop"}),
        ("edgewise bench ", {"toy", "join", "runtime"}),
        ("edgewise demo ", {"toys", "sessions"}),
    ],
)
def test_the_shell_completes_what_a_toy_adds(run, words: str, offered: set[str]) -> None:
    position = str(len(words.split()))
    done = run(_EDGEWISE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=position)
    assert offered <= set(done.stdout.split())


def test_the_help_lists_the_toy_among_the_others(run) -> None:
    assert "  toy        Play with a toy.\n" in run("--help").stdout
    assert re.search(r"\n  toy +How fast a toy is\.\n", run("bench", "--help").stdout)
    assert re.search(r"\n  toys +A toy at work\.\n", run("demo", "--help").stdout)


TOUR = """
from edgewise.cli.lazy import LazyCommand
from edgewise.cli.main import main

toy = LazyCommand("made_up_toy_bench", "A toy.", single=True)
main({"demo": LazyCommand("made_up_toy_demo", "The tour.", single=True, also={"toys": toy})})
"""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("demo",), "a toy at work, loud: False\n"),
        (("demo", "--loud"), "a toy at work, loud: True\n"),
        (("demo", "toys", "--rounds", "2"), "measured 2\n"),
    ],
)
def test_without_a_name_the_demo_is_the_tour(run, args: tuple[str, ...], said: str) -> None:
    done = run(*args, program=TOUR)
    assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_an_option_of_the_tour_is_not_lost_on_the_way_to_another_demo(run) -> None:
    done = run("demo", "--loud", "toys", program=TOUR)
    assert (done.returncode, done.stdout) == (2, "")
    assert "write --loud behind 'toys', not in front of it" in done.stderr


@pytest.mark.parametrize(
    "taken",
    [
        {"commands": {"session": LazyCommand("json", "X.")}},
        {"commands": {"operator": LazyCommand("json", "X.")}},
        {"bench": {"join": LazyCommand("json", "X.")}},
        {"domain": "sessions", "demo": LazyCommand("json", "X.")},
    ],
)
def test_two_commands_of_one_name_are_a_mistake(taken: dict) -> None:
    with pytest.raises(TakenName, match="two commands"):
        commands_of((*ENTRIES, Entry(**{"domain": "toys", **taken})))


def test_every_command_is_where_its_entry_says() -> None:
    def missing(commands: dict[str, LazyCommand]) -> list[str]:
        found = [name for name, command in commands.items() if not command.exists()]
        return found + [name for each in commands.values() for name in missing(dict(each.also))]

    assert missing(COMMANDS) == []


LISTS = """
import sys
from edgewise.cli import main
assert main.COMMANDS
print(*sorted(name for name in sys.modules if name.startswith("edgewise.")))
"""


def test_the_list_of_commands_loads_nothing_else_of_the_house(run) -> None:
    """Whatever is loaded here is waited for by everybody who only wants to see the help."""
    loaded = run(program=LISTS).stdout.split()
    allowed = (
        "edgewise.errors",
        "edgewise.cli",
        "edgewise.cli.errors",
        "edgewise.cli.lazy",
        "edgewise.cli.main",
        "edgewise.cli.terminal",
    )
    others = [name for name in loaded if name not in allowed and not name.endswith("entry")]
    assert "edgewise.cli.session.entry" in loaded
    assert [name for name in others if f"{name}.entry" not in loaded] == []


def groups() -> Iterator[tuple[str, Any]]:
    yield "edgewise", build(COMMANDS)
    for name, entry in COMMANDS.items():
        yield from inside(f"edgewise {name}", load(name, entry))


def inside(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return
    yield path, command
    waiting = {name: load(name, entry) for name, entry in getattr(command, "entries", {}).items()}
    for name, inner in {**command.commands, **waiting}.items():
        yield from inside(f"{path} {name}", inner)


def test_in_a_list_each_command_has_a_sentence_that_is_not_cut() -> None:
    cut = []
    for path, group in groups():
        context = typer.Context(group, info_name=path, terminal_width=80)
        _, _, listed = group.get_help(context).partition("\nCommands:\n")
        assert listed, path
        cut += [f"{path}: {line}" for line in listed.splitlines() if line.endswith("...")]
    assert cut == []
