"""`edgewise tenant approve` and `deny`: find a request by name, and write a decision into it."""

import re
from typing import Annotated

import typer

from edgewise.api.tenancy_requests import (
    NAME_PATTERN,
    ClusterRoleRequest,
    Request,
    RoleRequest,
    TenantRequest,
)
from edgewise.cli.options import Context, Kubeconfig
from edgewise.cli.tenant.acting import ActAs, Namespace, act_as
from edgewise.cli.tenant.reading import BadTenantOption
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound


def deciding(*, approved: bool, help_text: str) -> typer.Typer:
    """One command, with either word."""
    app = typer.Typer()

    @app.command(help=help_text)
    def decided(
        name: Annotated[str, typer.Argument(help="The name of the request.")],
        namespace: Namespace = None,
        reason: Annotated[str, typer.Option(help="For its maker.")] = "",
        who: ActAs = None,
        kubeconfig: Kubeconfig = None,
        context: Context = None,
    ) -> None:
        async def do(client: Client) -> None:
            await decide(client, name, namespace, approved=approved, reason=reason)

        act_as(kubeconfig, context, who, do)

    return app


async def decide(
    client: Client, name: str, namespace: str | None, *, approved: bool, reason: str
) -> None:
    found = await _find(client, name, namespace)
    decision = {"approved": approved, **({"reason": reason} if reason else {})}
    body = {"spec": {"decision": decision}}
    await client.patch(type(found), name, found.metadata.namespace, body=body)
    print(f"{found.spec.requester} {'gets' if approved else 'does not get'} {about(found)}")


async def _find(client: Client, name: str, namespace: str | None) -> Request:
    if not re.fullmatch(NAME_PATTERN, name):
        raise BadTenantOption(f"{name!r} is no name of a request: it has 26 letters and digits")
    if namespace is not None:
        return await client.get(RoleRequest, name, namespace)
    try:
        return await client.get(TenantRequest, name)
    except NotFound:
        pass
    try:
        return await client.get(ClusterRoleRequest, name)
    except NotFound as error:
        raise BadTenantOption(
            f"there is no request {name}: one for a role in a namespace needs -n NAMESPACE"
        ) from error


def about(found: Request) -> str:
    if isinstance(found, TenantRequest):
        return f"the tenant {found.spec.tenant_name}"
    where = found.metadata.namespace or "the whole cluster"
    return f"{found.spec.role_ref.kind} {found.spec.role_ref.name} in {where}"
