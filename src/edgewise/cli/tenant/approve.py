"""`edgewise tenant approve`."""

from typing import Annotated

import typer

from edgewise.cli.tenant.acting import ActAs, Context, Kubeconfig, Namespace, act_as
from edgewise.cli.tenant.deciding import decide
from edgewise.kube.client import Client

app = typer.Typer()


@app.command()
def approve(
    name: Annotated[str, typer.Argument(help="The name of the request.")],
    namespace: Namespace = None,
    reason: Annotated[str, typer.Option(help="For its maker.")] = "",
    who: ActAs = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Give what a request asks for. You have to hold all of it yourself."""

    async def do(client: Client) -> None:
        await decide(client, name, namespace, approved=True, reason=reason)

    act_as(kubeconfig, context, who, do)
