"""`edgewise tenant`: make tenants, look at them, and end them."""

import asyncio
import contextlib
import json
import sys
import time
from typing import Annotated

import typer

from edgewise.api.tenancy import (
    Share,
    State,
    SubNamespace,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
)
from edgewise.cli.numbers import countable
from edgewise.cli.options import AsJson, Context, Kubeconfig
from edgewise.cli.session.text import table
from edgewise.cli.tenant.acting import act_as
from edgewise.cli.tenant.reading import BadTenantOption, resources, subject, tenant_name
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from edgewise.kube.kinds.core import Namespace
from edgewise.runtime.errors import Unavailable

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

# The claim that this command writes; an administrator may have others beside it.
CLAIM = "default"
POLL_SECONDS = 0.1
DEEPEST = 64

Name = Annotated[str, typer.Argument(help="The name of the tenant.")]
Timeout = Annotated[
    float, typer.Option(help="How many seconds to wait.", min=0.1, callback=countable)
]


@app.command()
def create(
    name: Name,
    owner: Annotated[
        list[str],
        typer.Option(help="user:NAME, group:NAME or account:NAMESPACE/NAME. May be repeated."),
    ],
    full_name: Annotated[str, typer.Option(help="What the organisation is called.")] = "",
    quota: Annotated[
        list[str] | None, typer.Option(help="What it may use: pods=10,cpu=4. May be repeated.")
    ] = None,
    timeout: Timeout = 60.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Make a tenant, and wait until it can be used."""
    spec = TenantSpec(owners=[subject(each) for each in owner], full_name=full_name)
    shared = resources(quota or ())

    async def do(client: Client) -> None:
        await make(client, tenant_name(name), spec, shared)
        await _until(client, name, State.ESTABLISHED, timeout)
        print(f"tenant {name} is established; its owners work in the namespace {name}")

    act_as(kubeconfig, context, None, do)


async def make(client: Client, name: str, spec: TenantSpec, shared: dict[str, int | str]) -> None:
    """A tenant and its quota, or neither: nothing of a tenant that is there is changed."""
    with contextlib.suppress(NotFound):
        await client.get(Tenant, name)
        raise BadTenantOption(
            f"there is a tenant {name} already: `edgewise tenant quota {name} pods=10` changes "
            "what it may use"
        )
    made = Tenant.named(name, spec=spec)
    if not shared:
        await client.create(made)
        return
    # The quota is before the tenant, so that it never has a moment without. What the API server
    # says of the tenant is asked before that.
    await client.create(made, dry_run=True)
    try:
        await client.create(_quota(name, shared))
    except AlreadyExists:
        raise BadTenantOption(
            f"there is a quota {name} already, of no tenant: delete that TenantResourceQuota, or "
            "leave --quota out to take it as it is"
        ) from None
    try:
        await client.create(made)
    except BaseException:
        with contextlib.suppress(KubeError):
            await client.delete(TenantResourceQuota, name)
        raise


@app.command("list")
def list_(as_json: AsJson = False, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """All tenants, those of other tenants too."""

    async def do(client: Client) -> None:
        found = sorted((await client.list(Tenant)).items, key=lambda each: each.metadata.name)
        rows = [
            {
                "name": each.metadata.name,
                "owner": each.spec.owners[0].name if each.spec.owners else "",
                "state": each.status.state or "Starting",
                "parent": each.spec.parent.namespace if each.spec.parent is not None else "",
            }
            for each in found
        ]
        if as_json:
            print(json.dumps(rows, indent=2))
        elif rows:
            print(
                table(("NAME", "OWNER", "STATE", "PARENT"), [tuple(row.values()) for row in rows])
            )
        else:
            print("There are no tenants here.", file=sys.stderr)

    act_as(kubeconfig, context, None, do)


@app.command()
def tree(
    name: Annotated[str, typer.Argument(help="The tenant, or a namespace of it.")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """The namespaces below one, as far as you may see them."""

    async def do(client: Client) -> None:
        await _there(client, tenant_name(name))
        print(name)
        await _branches(client, name, "", DEEPEST)

    act_as(kubeconfig, context, None, do)


async def _there(client: Client, name: str) -> None:
    try:
        await client.get(Namespace, name)
    except NotFound:
        raise BadTenantOption(f"there is no tenant or namespace {name}") from None
    except Forbidden:
        return  # owners need not see the namespace to see what is in it


async def _branches(client: Client, namespace: str, indent: str, left: int) -> None:
    try:
        found = (await client.list(SubNamespace, namespace)).items
    except Forbidden:
        print(f"{indent}└─ (not yours to see)")
        return
    for number, each in enumerate(sorted(found, key=lambda one: one.metadata.name), start=1):
        last = number == len(found)
        held = ", ".join(f"{what} {much}" for what, much in each.status.granted.items())
        mode = each.status.mode.lower() or "starting"
        words = f"{each.metadata.name} ({mode}) {each.status.child or each.status.state}"
        print(f"{indent}{'└─' if last else '├─'} {words}{f': {held}' if held else ''}")
        if each.status.child and left > 1:
            below = f"{indent}{'   ' if last else '│  '}"
            await _branches(client, each.status.child, below, left - 1)


@app.command()
def disable(
    name: Name, timeout: Timeout = 60.0, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Take all rights from a tenant's people and accounts. Nothing is deleted, pods run on."""
    act_as(kubeconfig, context, None, lambda client: _switch(client, name, False, timeout))


@app.command()
def enable(
    name: Name, timeout: Timeout = 60.0, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Give a disabled tenant's people and accounts their rights back."""
    act_as(kubeconfig, context, None, lambda client: _switch(client, name, True, timeout))


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    timeout: Timeout = 120.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Delete a disabled tenant. All of its namespaces go, with all that is in them."""
    if not yes and not typer.confirm(f"Delete {name} with all its namespaces?"):
        raise BadTenantOption("nothing was deleted")

    async def do(client: Client) -> None:
        found = await _known(client, name)
        if found.spec.enabled:
            raise BadTenantOption(f"{name} is at work: say edgewise tenant disable {name} first")
        await client.delete(Tenant, name)
        with contextlib.suppress(NotFound):
            await client.delete(TenantResourceQuota, name)
        await _gone(client, name, timeout)
        print(f"tenant {name} is deleted")

    act_as(kubeconfig, context, None, do)


@app.command()
def quota(
    name: Name,
    given: Annotated[
        list[str] | None, typer.Argument(help="What it may use from now on: pods=10 cpu=4.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what a tenant may use, and who holds it. With amounts, set it first."""
    wanted = resources(given or ())

    async def do(client: Client) -> None:
        await _known(client, name)
        if wanted:
            await client.apply(_quota(name, wanted), field_manager="edgewise-tenant")
            await _counted(client, name)
        try:
            status = (await client.get(TenantResourceQuota, name)).status
        except NotFound:
            print(f"{name} has no quota")
            return
        rows = [(what, much, status.granted.get(what, "0")) for what, much in status.total.items()]
        print(table(("RESOURCE", "TOTAL", "GRANTED"), rows))
        for namespace in status.over:
            print(f"{namespace} uses more than it holds")

    act_as(kubeconfig, context, None, do)


def _quota(name: str, shared: dict[str, int | str]) -> TenantResourceQuota:
    claims = {CLAIM: Share(resources=shared)}
    return TenantResourceQuota.named(name, spec=TenantResourceQuotaSpec(claims=claims))


async def _known(client: Client, name: str) -> Tenant:
    try:
        return await client.get(Tenant, tenant_name(name))
    except NotFound as error:
        if not error.details.get("name"):
            raise
        raise BadTenantOption(f"there is no tenant {name}") from None


async def _switch(client: Client, name: str, enabled: bool, timeout: float) -> None:
    await _known(client, name)
    await client.patch(Tenant, name, body={"spec": {"enabled": enabled}})
    await _until(client, name, State.ESTABLISHED if enabled else State.DISABLED, timeout)
    print(f"tenant {name} is {'enabled' if enabled else 'disabled'}")


async def _until(client: Client, name: str, state: State, timeout: float) -> None:
    until = time.monotonic() + timeout
    while True:
        found = await client.get(Tenant, name)
        current = found.status.observed_generation == found.metadata.generation
        if current and found.status.state == state.value:
            return
        if current and found.status.state.startswith(State.FAILED.value):
            raise BadTenantOption(f"tenant {name}: {found.status.conditions[0].message}")
        if time.monotonic() > until:
            raise Unavailable(f"tenant {name} is not {state.value} yet: does an operator run?")
        await asyncio.sleep(POLL_SECONDS)


async def _counted(client: Client, name: str, timeout: float = 30.0) -> None:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        found = await client.get(TenantResourceQuota, name)
        if found.status.observed_generation == found.metadata.generation:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise Unavailable("nobody looked at the new quota yet: does an operator run?")


async def _gone(client: Client, name: str, timeout: float) -> None:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        try:
            await client.get(Namespace, name)
        except NotFound:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise Unavailable(f"the namespace {name} is still being deleted; look at what holds it")
