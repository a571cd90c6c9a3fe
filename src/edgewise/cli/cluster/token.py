"""`edgewise token`: API tokens for applications and for people who operate."""

import sys
from typing import Annotated

import typer

from edgewise.api.owners import APPLICATION_NAME
from edgewise.api.secrets import SECRET_LABEL
from edgewise.api.tenancy import TENANT, TENANT_UID
from edgewise.cli.cluster.commands import (
    BadClusterOption,
    HubPlace,
    moment,
    of_a_hub,
    shown,
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
@of_a_hub
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
    *,
    at: HubPlace,
) -> None:
    """Make a token. It is printed once and kept nowhere: only its digest is."""
    if role not in ROLES:
        raise BadClusterOption(f"--role must be one of {', '.join(ROLES)}, not {role!r}")
    check_application(application)
    expires = moment(days) if days is not None else None

    async def do(hub: Client) -> None:
        await require_hub(hub, at.namespace)
        uid = await tenant_uid(hub, tenant)
        token, kept = make_token(
            Role(role), application, expires=expires, tenant=tenant, tenant_uid=uid
        )
        await hub.create(secret_of(kept, at.namespace))
        print(
            f"token {kept.id} for {application} in the hub of namespace {at.namespace}, which is "
            "shown only now:",
            file=sys.stderr,
        )
        print(token)

    at.act(do)


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
@of_a_hub
def list_tokens(*, at: HubPlace) -> None:
    """The tokens that are known, without what makes them work."""

    async def do(hub: Client) -> None:
        await require_hub(hub, at.namespace)
        listing = await hub.list(Secret, at.namespace, labels=f"{SECRET_LABEL}={LABEL_VALUE}")
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
            print(f"There are no tokens in namespace {at.namespace}.", file=sys.stderr)

    at.act(do)


@app.command()
@of_a_hub
def revoke(
    id: Annotated[str, typer.Argument(help="The id of the token, as the list shows it.")],
    *,
    at: HubPlace,
) -> None:
    """Take a token back; it stops working within a second."""

    async def do(hub: Client) -> None:
        try:
            await hub.delete(Secret, secret_name(id), at.namespace)
        except NotFound:
            raise NotThere(
                f"there is no token {id!r} in namespace {at.namespace}: see `edgewise token list`"
            ) from None
        print(f"token {id} is revoked")

    at.act(do)
