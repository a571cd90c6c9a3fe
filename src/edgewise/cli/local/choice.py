"""Which cluster a command is about, when its name may be left out."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.faults import component_names
from edgewise.local.layout import homes


def cluster_completion(incomplete: str) -> list[str]:
    """For the shell: whatever is wrong, somebody who presses Tab does not want to hear of it."""
    with suppress(Exception):
        return [home.name for home in homes() if home.name.startswith(incomplete)]
    return []


def component_completion(context: typer.Context, incomplete: str) -> list[str]:
    with suppress(Exception):
        known = component_names(chosen(context.params.get("name")))
        return [name for name in known if name.startswith(incomplete)]
    return []


def place_completion(context: typer.Context, incomplete: str) -> list[str]:
    with suppress(Exception):
        known = chosen(context.params.get("name")).spec.places
        return [place for place in known if place.startswith(incomplete)]
    return []


def distance_completion(context: typer.Context, incomplete: str) -> list[str]:
    with suppress(Exception):
        spec = chosen(context.params.get("name")).spec
        known = [f"{place}:{node}=" for place in spec.places for node in spec.node_names]
        return [distance for distance in known if distance.startswith(incomplete)]
    return []


Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Which cluster; may be left out if there is one.",
        autocompletion=cluster_completion,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def kubeconfig_of(cluster: LocalCluster) -> Path:
    if not cluster.kubeconfig.is_file():
        raise LocalError(
            f"the kubeconfig of cluster {cluster.name!r} is gone ({cluster.kubeconfig}); the "
            "`edgewise local up` that made the cluster writes it again"
        )
    return cluster.kubeconfig


def chosen(name: str | None) -> LocalCluster:
    if name is not None:
        return clusters.get(name)
    found = clusters.list_clusters()
    if len(found) == 1:
        return found[0]
    if not found:
        raise LocalError("there is no local cluster; start one with `edgewise local up`")
    names = ", ".join(cluster.name for cluster in found)
    raise LocalError(f"which cluster? Choose one with --name: {names}")
