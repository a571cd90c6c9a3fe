"""The `edgewise` command: names the commands, and ends every error in one sentence."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from edgewise import __version__
from edgewise.cli.entry import Entry, benches_of, demos_of, joined
from edgewise.cli.errors import sentence, wants_traceback
from edgewise.cli.game.entry import GAMES
from edgewise.cli.lazy import LazyCommand, LazyGroup
from edgewise.cli.placement.entry import PLACEMENT
from edgewise.cli.session.entry import SESSIONS
from edgewise.cli.tenant.entry import TENANCY
from edgewise.cli.terminal import show_text_only

INTERRUPTED = 128 + signal.SIGINT

# One for each domain.
ENTRIES: tuple[Entry, ...] = (SESSIONS, GAMES, PLACEMENT, TENANCY)

LOCAL = LazyCommand(
    "edgewise.cli.local.commands",
    "Run real Kubernetes clusters on this machine.",
    also={
        "engine": LazyCommand(
            "edgewise.cli.local.engine", "Find or build the Kubernetes programs.", single=True
        ),
        "image": LazyCommand(
            "edgewise.cli.local.image", "Build, load and list images without a registry."
        ),
        "kubectl": LazyCommand(
            "edgewise.cli.local.kubectl", "Run kubectl against a cluster.", single=True
        ),
        "platform": LazyCommand(
            "edgewise.cli.local.platform", "Run operator and gateway for a cluster.", single=True
        ),
        "run": LazyCommand("edgewise.cli.local.run", "Run a command in a place.", single=True),
    },
)
OPERATOR = LazyCommand("edgewise.cli.operator", "Run the controllers.", single=True)
GATEWAY = LazyCommand("edgewise.cli.gateway", "Run the gateway agent.", single=True)
CLUSTER = LazyCommand("edgewise.cli.cluster.commands", "Which clusters a hub knows.")
TOKEN = LazyCommand("edgewise.cli.cluster.token", "API tokens for applications.")
SERVER = LazyCommand("edgewise.cli.server", "Run the HTTP API over many clusters.", single=True)
REPORTS = LazyCommand(
    "edgewise.cli.reports", "Count what clients measured, for placements.", single=True
)
PING = LazyCommand("edgewise.cli.ping", "Run the echo server for latency probes.", single=True)
UNINSTALL = LazyCommand(
    "edgewise.cli.uninstall", "Make a cluster ready for the chart to go.", single=True
)
CRDS = LazyCommand("edgewise.cli.crds", "Write or check the custom resource definitions.")


def commands_of(entries: Sequence[Entry]) -> dict[str, LazyCommand]:
    """Of all domains, between those to begin with and those that run the programs."""
    # Without a name it is the tour: what a person sees who has never heard of domains.
    demo = LazyCommand(
        "edgewise.cli.demo.commands",
        "Show it at work on this machine.",
        single=True,
        also=demos_of(entries),
    )
    bench = LazyCommand(
        "edgewise.cli.bench.commands",
        "Measure, and print JSON as the last line.",
        also=benches_of(entries),
    )
    return joined(
        (
            {"demo": demo, "local": LOCAL},
            *(entry.commands for entry in entries),
            {
                "operator": OPERATOR,
                "gateway": GATEWAY,
                "cluster": CLUSTER,
                "token": TOKEN,
                "server": SERVER,
                "ping": PING,
                "reports": REPORTS,
                "uninstall": UNINSTALL,
                "crds": CRDS,
                "bench": bench,
            },
        )
    )


COMMANDS = commands_of(ENTRIES)

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


def build(commands: Mapping[str, LazyCommand]) -> LazyGroup:
    group = get_command(app)
    if not isinstance(group, LazyGroup):
        raise TypeError("the edgewise command has to be a LazyGroup")
    group.hold(commands)
    return group


def main(commands: Mapping[str, LazyCommand] = COMMANDS) -> NoReturn:
    speak_even_if_nobody_listens()
    show_text_only()
    asked = end_like_ctrl_c()
    try:
        build(commands).main(prog_name="edgewise")
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
