"""`edgewise toy`: the command of the toy domain, and how the command line comes to know it."""

from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.entry import Entry
from edgewise.cli.lazy import LazyCommand

app = typer.Typer()


@app.callback()
def toy() -> None:
    """Play."""


@app.command()
def agent(kubeconfig: Annotated[Path, typer.Option(help="Where to play.")]) -> None:
    """What `toy-agent` runs."""
    typer.echo(f"plays in {kubeconfig}")


ENTRY = Entry(domain="toys", commands={"toy": LazyCommand(__name__, "Play with toys.")})
