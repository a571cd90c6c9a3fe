"""The command as a person starts it: what it lists, how it ends."""

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

import edgewise
from edgewise.cli import lazy

PROGRAM = """
import sys
from edgewise.cli import main
from edgewise.cli.lazy import LazyCommand as Entry
commands = {
    "broken": Entry("made_up_broken", "Cannot be imported."),
    "absent": Entry("made_up_absent", "Is not there."),
    "good": Entry("made_up_good", "Works."),
    "only": Entry("made_up_only", "One command.", single=True),
    "outer": Entry("made_up_absent", "Holds others.", also={"inner": Entry("made_up_good", "In.")}),
}
main.main(commands)
"""

MODULES = {
    "made_up_broken": "import not_there_at_all",
    "made_up_good": """
        import typer
        from edgewise.errors import ReadableError
        app = typer.Typer()
        class MyError(ReadableError): pass
        @app.command()
        def fail(): raise MyError("the sky is green: wait until it is blue")
        @app.command()
        def bug(): raise KeyError("x")
        @app.command()
        def interrupt(): raise KeyboardInterrupt
        @app.command()
        def number(n: int): print("number", n)
        """,
    "made_up_only": """
        import typer
        app = typer.Typer()
        @app.command()
        def whatever(loud: bool = False): print("only", loud)
        """,
}


@pytest.fixture
def run(tmp_path: Path):
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *args],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "100", **env},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run


def test_help_lists_what_exists_and_imports_none_of_it(run) -> None:
    done = run("--help")
    assert done.returncode == 0
    for name in ("broken", "good", "only", "outer"):
        assert f"  {name} " in done.stdout
    assert "absent" not in done.stdout


def test_no_arguments_shows_the_help(run) -> None:
    done = run()
    assert "Usage: edgewise" in done.stdout + done.stderr


def test_version(run) -> None:
    assert run("--version").stdout == f"edgewise {edgewise.__version__}\n"


def test_a_command_of_a_group(run) -> None:
    assert run("good", "number", "7").stdout == "number 7\n"


def test_a_single_command(run) -> None:
    assert run("only", "--loud").stdout == "only True\n"


def test_a_group_whose_own_module_is_missing_still_holds_the_others(run) -> None:
    assert run("outer", "inner", "number", "3").stdout == "number 3\n"


def test_a_group_that_was_loaded_for_the_program_works_alone_too(tmp_path, monkeypatch) -> None:
    (tmp_path / "made_up_held.py").write_text(textwrap.dedent(MODULES["made_up_good"]))
    monkeypatch.syspath_prepend(tmp_path)
    lazy.load(
        "held",
        lazy.LazyCommand("made_up_held", "Held.", also={"x": lazy.LazyCommand("json", "X.")}),
    )
    app = importlib.import_module("made_up_held").app
    done = CliRunner().invoke(app, ["number", "7"], catch_exceptions=False)
    assert done.output == "number 7\n"


def test_an_error_is_one_sentence_and_a_code(run) -> None:
    done = run("good", "fail")
    assert done.returncode == 1
    assert done.stderr == "edgewise: the sky is green: wait until it is blue\n"


def test_a_mistake_of_ours_shows_its_traceback_only_when_asked(run) -> None:
    plain, debug = run("good", "bug"), run("good", "bug", EDGEWISE_DEBUG="1")
    assert plain.returncode == 1
    assert "Traceback" not in plain.stderr
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr


def test_a_broken_command_breaks_only_itself(run) -> None:
    done = run("broken")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "not_there_at_all" in done.stderr


def test_interrupt_is_quiet(run) -> None:
    done = run("good", "interrupt")
    assert done.returncode == 130
    assert done.stderr == ""


@pytest.mark.parametrize("args", [("nope",), ("good", "nope"), ("good", "number", "seven")])
def test_bad_usage_is_explained(run, args: tuple[str, ...]) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert "Error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_shell_completion_offers_the_commands(run) -> None:
    done = run(_EDGEWISE_COMPLETE="complete_bash", COMP_WORDS="edgewise ", COMP_CWORD="1")
    assert {"broken", "good", "only", "outer"} <= set(done.stdout.split())
