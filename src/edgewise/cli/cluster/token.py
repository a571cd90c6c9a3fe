"""`edgewise token`: API tokens for applications and for people who operate."""

import sys
from typing import Annotated

import typer

from edgewise.api.owners import APPLICATION_NAME
from edgewise.api.secrets import SECRET_LABEL
from edgewise.api.tenancy import TENANT, TENANT_UID
from edgewise.cli.cluster.commands import (
    BadClusterOption,
    Context,
    Hub,
    Namespace,
    moment,
    shown,
    with_hub,
)
from edgewise.cli.cluster.hub_namespace import require_hub
from edgewise.cli.numbers import countable
from edgewise.cli.session.text import table
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace as KubernetesNamespace
from edgewise.kube.kinds.core import Secret
from edgewise.runtime.errors import NotThere
from edgewise.server.identity.api_tokens import (
    LABEL_VALUE,
    ROLES,
    TokenError,
    check_application,
    make_token,
    secret_name,
    secret_of,
    token_in,
)
from edgewise.server.identity.principal import Role

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create(
    application: Annotated[str, typer.Argument(help="The application that it is for.")],
    role: Annotated[str, typer.Option(help="admin, app or reader.")] = "app",
    days: Annotated[
        float | None,
        typer.Option(min=0.01, callback=countable, help="For how long; else until it is revoked."),
    ] = None,
    tenant: Annotated[
        str,
        typer.Option(help="Whose application it is: the token ends when this tenant is disabled."),
    ] = "",
    kubeconfig: Hub = None,
    context: Context = None,
    namespace: Namespace = "default",
) -> None:
    """Make a token. It is printed once and kept nowhere: only its digest is."""
    if role not in ROLES:
        raise BadClusterOption(f"--role must be one of {', '.join(ROLES)}, not {role!r}")
    check_application(application)
    expires = moment(days) if days is not None else None

    async def do(hub: Client) -> None:
        await require_hub(hub, namespace)
        uid = await tenant_uid(hub, tenant)
        token, kept = make_token(
            Role(role), application, expires=expires, tenant=tenant, tenant_uid=uid
        )
        await hub.create(secret_of(kept, namespace))
        print(
            f"token {kept.id} for {application} in the hub of namespace {namespace}, which is "
            "shown only now:",
            file=sys.stderr,
        )
        print(token)

    with_hub(kubeconfig, context, do)


async def tenant_uid(hub: Client, name: str) -> str:
    if not name:
        return ""
    if not APPLICATION_NAME.fullmatch(name):
        raise BadClusterOption(f"{name!r} cannot be the name of a tenant")
    try:
        found = (await hub.get(KubernetesNamespace, name)).metadata.labels
    except NotFound:
        found = {}
    if found.get(TENANT) != name:
        raise NotThere(f"there is no tenant {name!r} in this cluster: see `edgewise tenant list`")
    return found[TENANT_UID]


@app.command("list")
def list_tokens(
    kubeconfig: Hub = None, context: Context = None, namespace: Namespace = "default"
) -> None:
    """The tokens that are known, without what makes them work."""

    async def do(hub: Client) -> None:
        await require_hub(hub, namespace)
        listing = await hub.list(Secret, namespace, labels=f"{SECRET_LABEL}={LABEL_VALUE}")
        rows = []
        for secret in listing.items:
            try:
                token = token_in(secret)
            except TokenError as error:
                print(str(error), file=sys.stderr)
                continue
            rows.append(
                (
                    token.id,
                    token.application,
                    str(token.role),
                    token.tenant,
                    shown(token.expires),
                )
            )
        if rows:
            print(table(("ID", "APPLICATION", "ROLE", "TENANT", "EXPIRES"), sorted(rows)))
        else:
            print(f"There are no tokens in namespace {namespace}.", file=sys.stderr)

    with_hub(kubeconfig, context, do)


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The id of the token, as the list shows it.")],
    kubeconfig: Hub = None,
    context: Context = None,
    namespace: Namespace = "default",
) -> None:
    """Take a token back; it stops working within a second."""

    async def do(hub: Client) -> None:
        try:
            await hub.delete(Secret, secret_name(id), namespace)
        except NotFound:
            raise NotThere(
                f"there is no token {id!r} in namespace {namespace}: see `edgewise token list`"
            ) from None
        print(f"token {id} is revoked")

    with_hub(kubeconfig, context, do)
