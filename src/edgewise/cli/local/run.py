"""`edgewise local run`: a command where the clients are."""

import os
from typing import Annotated

import typer

from edgewise.cli.local.choice import Name, chosen, place_completion
from edgewise.local.places import command_in, environment_in, place_of

app = typer.Typer()


@app.command(
    context_settings={
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
        "help_option_names": ["-h", "--help"],
    }
)
def run(
    command: Annotated[
        list[str], typer.Argument(help="Such as: -- curl http://web.default.svc.cluster.local")
    ],
    place: Annotated[
        str | None,
        typer.Option(
            help="Where; may be left out if there is one place.",
            autocompletion=place_completion,
        ),
    ] = None,
    name: Name = None,
) -> None:
    """Run a command in a place of a cluster: with its network, its names and its distances.

    It sees the files of this machine, and reaches nothing but the cluster: pods, nodes and
    Services, by address and by name. It ends when the cluster is taken down.
    """
    cluster = chosen(name)
    where = place_of(cluster, place)
    program = command_in(cluster, where, command)
    os.execvpe(program[0], program, environment_in(cluster, where))  # noqa: S606 - becomes it
