"""`edgewise uninstall`: what has to happen before the chart goes, with or without an operator."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.numbers import countable
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.operator import NAMESPACE
from edgewise.uninstall import Uninstaller

app = typer.Typer()


@app.command()
def uninstall(
    namespace: Annotated[str, typer.Option(help="Where Edgewise is installed.")] = NAMESPACE,
    delete_sessions: Annotated[
        bool,
        typer.Option(
            help="Delete all sessions, templates and pods of theirs, and the key of the seats."
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, callback=countable, help="Seconds that it may take.")
    ] = 120.0,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
) -> None:
    """Stop the operator and take away what only an operator could, so that nothing hangs.

    `helm uninstall` runs this by itself. Sessions, templates and running pods stay for the next
    installation, unless --delete-sessions is given. It needs no operator, and can be repeated.
    """
    access = load_access(kubeconfig, context)

    async def run() -> None:
        async with Client(access, user_agent="edgewise-uninstall") as client:
            work = Uninstaller(client, namespace, typer.echo, timeout=timeout)
            await work.run(delete_sessions=delete_sessions)

    asyncio.run(run())
