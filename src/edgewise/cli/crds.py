"""`edgewise crds`: the custom resource definitions, as files, as a page and in a cluster."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from edgewise.api.manifests import differences, render, render_objects, write
from edgewise.api.reference import render_reference
from edgewise.domain import all_kinds, install_domains
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.operator import DOMAINS

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Directory = Annotated[Path, typer.Option(help="Where the CRDs are.")]
Objects = Annotated[Path, typer.Option(help="Where the cluster objects of the domains are.")]
Reference = Annotated[Path, typer.Option(help="Where the reference page is.")]
DIRECTORY = Path("deploy/crds")
OBJECTS = Path("deploy/cluster-objects")
REFERENCE = Path("docs/reference/api.md")


@app.command()
def generate(
    directory: Directory = DIRECTORY,
    objects: Objects = OBJECTS,
    reference: Reference = REFERENCE,
) -> None:
    """Write the CRDs and the reference page of all kinds. CRDs without a kind are removed."""
    kinds = all_kinds(DOMAINS)
    files = render(kinds)
    changed = write(directory, files) + write(objects, cluster_objects())
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(render_reference(kinds))
    typer.echo(f"{len(files)} CRDs in {directory}, {len(changed)} changed; {reference} written")


@app.command()
def check(
    directory: Directory = DIRECTORY,
    objects: Objects = OBJECTS,
    reference: Reference = REFERENCE,
) -> None:
    """Fail if a file is not what the types say."""
    kinds = all_kinds(DOMAINS)
    stale = [str(directory / name) for name in differences(directory, render(kinds))]
    stale += [str(objects / name) for name in differences(objects, cluster_objects())]
    if not reference.exists() or reference.read_text() != render_reference(kinds):
        stale.append(str(reference))
    if stale:
        typer.echo(
            f"{', '.join(stale)}: not what the types say; run `edgewise crds generate`", err=True
        )
        raise typer.Exit(1)
    typer.echo(f"{len(kinds)} CRDs in {directory} and {reference} are up to date")


def cluster_objects() -> dict[str, str]:
    """By file. The chart leaves out what has `.mutating` in its name where it is not served."""
    return render_objects(
        {
            **{each.name: each.cluster_objects for each in DOMAINS},
            **{f"{each.name}.mutating": each.mutating_policies for each in DOMAINS},
        }
    )


@app.command()
def install(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
) -> None:
    """Install the CRDs of all kinds. Waits until the cluster serves them.

    With them come the cluster objects of the domains: policies, ClusterRoles, PriorityClasses.
    """
    kinds = all_kinds(DOMAINS)
    access = load_access(kubeconfig, context)

    async def run() -> None:
        async with Client(access) as client:
            await install_domains(client, DOMAINS, kinds)

    asyncio.run(run())
    typer.echo(f"{len(kinds)} CRDs are installed and served at {access.server}")
