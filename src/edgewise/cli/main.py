"""The `edgewise` command: names the commands, and ends every error in one sentence."""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from edgewise import __version__
from edgewise.cli.errors import sentence, wants_traceback
from edgewise.cli.lazy import Entry, LazyGroup

INTERRUPTED = 128 + signal.SIGINT

COMMANDS = {
    "demo": Entry("edgewise.cli.demo", "Show it at work on this machine.", single=True),
    "local": Entry(
        "edgewise.cli.local",
        "Run real Kubernetes clusters on this machine.",
        also={
            "engine": Entry(
                "edgewise.cli.engine", "Find or build the Kubernetes programs.", single=True
            ),
            "image": Entry("edgewise.cli.image", "Build, load and list images without a registry."),
            "kubectl": Entry("edgewise.cli.kubectl", "Run kubectl against a cluster.", single=True),
            "platform": Entry(
                "edgewise.cli.local_platform",
                "Run operator and gateway for a cluster.",
                single=True,
            ),
        },
    ),
    "session": Entry("edgewise.cli.session", "Work with sessions and their clients."),
    "operator": Entry("edgewise.cli.operator", "Run the controllers.", single=True),
    "gateway": Entry("edgewise.cli.gateway", "Run the gateway agent.", single=True),
    "fleet": Entry(
        "edgewise.cli.fleet",
        "Which clusters belong to the fleet, and who may use it.",
        also={"token": Entry("edgewise.cli.fleet_token", "API tokens for applications.")},
    ),
    "server": Entry("edgewise.cli.server", "Run the HTTP API over many clusters.", single=True),
    "ping": Entry("edgewise.cli.ping", "Run the echo server for latency probes.", single=True),
    "crds": Entry("edgewise.cli.crds", "Write or check the custom resource definitions."),
    "bench": Entry(
        "edgewise.cli.bench",
        "Measure, and print JSON as the last line.",
        also={
            "join": Entry(
                "edgewise.cli.bench_join", "Joins, beside what a bare pod takes.", single=True
            ),
            "server": Entry(
                "edgewise.cli.bench_server", "What going through the server costs.", single=True
            ),
        },
    ),
}

app = typer.Typer(
    name="edgewise",
    cls=LazyGroup,
    help="One edge cloud out of ordinary Kubernetes clusters.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"edgewise {__version__}")
        raise typer.Exit


@app.callback()
def edgewise(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """One edge cloud out of ordinary Kubernetes clusters."""


def build() -> LazyGroup:
    group = get_command(app)
    if not isinstance(group, LazyGroup):
        raise TypeError("the edgewise command has to be a LazyGroup")
    group.hold(COMMANDS)
    return group


def main() -> NoReturn:
    speak_even_if_nobody_listens()
    asked = end_like_ctrl_c()
    try:
        build().main(prog_name="edgewise")
    except (KeyboardInterrupt, SystemExit) as end:
        # The parser turns an interrupt into an exit.
        code = INTERRUPTED if isinstance(end, KeyboardInterrupt) else end.code
        leave(128 + asked[0] if asked and code == INTERRUPTED else code)
    except Exception as error:
        if wants_traceback():
            raise
        with contextlib.suppress(OSError):
            print(f"edgewise: {sentence(error)}", file=sys.stderr)
        leave(1)
    leave(0)


def end_like_ctrl_c() -> list[signal.Signals]:
    """Whoever asks us to end, by whatever signal, what we began is cleaned up.

    Answers a list that will hold the signal. A command may have handlers of its own.
    """
    asked: list[signal.Signals] = []

    def end(number: int, frame: FrameType | None) -> None:
        asked.append(signal.Signals(number))
        interrupt = signal.getsignal(signal.SIGINT)
        # A shell lets what it runs in the background ignore Ctrl-C, but not this.
        if not callable(interrupt):
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Under nohup, a terminal that closes is to be ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    return asked


def speak_even_if_nobody_listens() -> None:
    """A closed output (`>&-`) is like one that nobody reads."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the end


def leave(code: str | int | None) -> NoReturn:
    """End with `code`, also when whoever read our output has gone away."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
