"""`edgewise crds`: the custom resource definitions, as files and in a cluster."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from edgewise.api.installation import install as install_into
from edgewise.api.manifests import differences, render, write
from edgewise.api.registry import kinds
from edgewise.kube.client import Client
from edgewise.kube.config import load_access

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Directory = Annotated[Path, typer.Option(help="Where the files are.")]
DIRECTORY = Path("deploy/crds")


@app.command()
def generate(directory: Directory = DIRECTORY) -> None:
    """Write the CRDs of all kinds, and remove those that have no kind any more."""
    files = render(kinds())
    changed = write(directory, files)
    typer.echo(f"{len(files)} CRDs in {directory}, {len(changed)} changed")


@app.command()
def check(directory: Directory = DIRECTORY) -> None:
    """Fail if a file is not what the types say."""
    stale = differences(directory, render(kinds()))
    if stale:
        typer.echo(
            f"{', '.join(stale)} in {directory} differ from the types: "
            "run `edgewise crds generate`",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo(f"{len(kinds())} CRDs in {directory} are up to date")


@app.command()
def install(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
) -> None:
    """Install the CRDs of all kinds into a cluster, and wait until they are served."""
    access = load_access(kubeconfig, context)

    async def run() -> None:
        async with Client(access) as client:
            await install_into(client, kinds())

    asyncio.run(run())
    typer.echo(f"{len(kinds())} CRDs are installed and served at {access.server}")
