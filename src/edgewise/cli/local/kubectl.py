"""`edgewise local kubectl`: the engine's own kubectl, talking to a local cluster."""

import os
from typing import Annotated

import typer

from edgewise.cli.local.choice import Name, chosen, kubeconfig_of

app = typer.Typer()


@app.command(
    context_settings={
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
        "help_option_names": ["-h", "--help"],
    }
)
def kubectl(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What kubectl is asked, such as: get pods -A")
    ] = None,
    name: Name = None,
) -> None:
    """Run kubectl of the same version as the cluster; needs no kubectl of your own."""
    cluster = chosen(name)
    program = cluster.program("kubectl")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig_of(cluster))}
    os.execve(program, ["kubectl", *(arguments or ())], environment)  # noqa: S606 - becomes it
