"""`edgewise slice`: nodes for one tenant, taken and given back."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from edgewise.api.tenancy import SLICE
from edgewise.api.tenancy_slices import (
    DEFAULT_GRACE_SECONDS,
    ClaimRef,
    ClaimState,
    NodeTerm,
    Slice,
    SliceClaim,
    SliceClaimSpec,
    SliceSpec,
    SliceState,
)
from edgewise.cli.options import AsJson, Context, Kubeconfig
from edgewise.cli.session.text import table
from edgewise.cli.tenant.acting import ActAs, act_as
from edgewise.cli.tenant.commands import Timeout
from edgewise.cli.tenant.reading import BadTenantOption, moment, resources, tenant_name
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import Node
from edgewise.runtime.errors import Unavailable

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

POLL_SECONDS = 0.2

Home = Annotated[str, typer.Option("--namespace", "-n", help="A namespace of a tenant.")]
Nodes = Annotated[int, typer.Option(help="How many nodes.", min=1, max=1000)]
Labels = Annotated[
    list[str] | None,
    typer.Option("--selector", "-l", help="Labels of the nodes: zone=a,disk=ssd."),
]
Least = Annotated[
    list[str] | None, typer.Option("--least", help="What each node has at least: cpu=4,memory=8Gi.")
]
Until = Annotated[
    str | None, typer.Option(help="When the nodes are shared again: 2030-01-31T12:00:00Z.")
]


@app.command("list")
def list_(
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="The claims there, instead of all slices."),
    ] = None,
    as_json: AsJson = False,
    who: ActAs = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """All slices, for an administrator. With -n, the claims of a namespace."""

    async def do(client: Client) -> None:
        rows = await _slices(client) if namespace is None else await _claims(client, namespace)
        if as_json:
            print(json.dumps(rows, indent=2))
        elif rows:
            header = ("NAME", "STATE", "NODES", "CLAIM" if namespace is None else "SLICE")
            print(table(header, [tuple(map(_shown, row.values())) for row in rows]))
        else:
            what = "slices" if namespace is None else "claims"
            print(f"There are no {what} here.", file=sys.stderr)

    act_as(kubeconfig, context, who, do)


async def _slices(client: Client) -> list[dict[str, object]]:
    found = sorted((await client.list(Slice)).items, key=lambda each: each.metadata.name)
    return [
        {
            "name": each.metadata.name,
            "state": each.status.state or "Starting",
            "nodes": each.status.nodes,
            "claim": f"{ref.namespace}/{ref.name}" if (ref := each.spec.claim_ref) else "",
        }
        for each in found
    ]


async def _claims(client: Client, namespace: str) -> list[dict[str, object]]:
    found = (await client.list(SliceClaim, tenant_name(namespace))).items
    return [
        {
            "name": each.metadata.name,
            "state": each.status.state or "Starting",
            "nodes": each.status.nodes or 0,
            "slice": each.status.slice,
        }
        for each in sorted(found, key=lambda each: each.metadata.name)
    ]


def _shown(value: object) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


@app.command()
def claim(
    name: Annotated[str, typer.Argument(help="The name of the claim.")],
    namespace: Home,
    nodes: Nodes = 1,
    selector: Labels = None,
    least: Least = None,
    manual: Annotated[
        bool, typer.Option("--manual", help="Let an administrator make the slice.")
    ] = False,
    until: Until = None,
    timeout: Timeout = 60.0,
    who: ActAs = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Ask for nodes, and wait until they are set apart. A Manual claim is not waited for."""
    spec = SliceClaimSpec(
        mode="Manual" if manual else "Dynamic",
        selector=terms(selector or ()),
        node_count=nodes,
        resources=resources(least or ()),
        expires_at=moment(until),
    )
    made = SliceClaim.named(tenant_name(name), tenant_name(namespace), spec=spec)

    async def do(client: Client) -> None:
        await client.create(made)
        if manual:
            print(f"claim {name} waits for an administrator, who says:")
            print(f"  edgewise slice create NAME --nodes {nodes} --claim {namespace}/{name}")
            return
        found = await _until_bound(client, made, timeout)
        held = ", ".join(f"{what} {much}" for what, much in found.status.resources.items())
        print(f"claim {name} has slice {found.status.slice} ({held})")
        print("a SubNamespace with spec.sliceClaim uses it")

    act_as(kubeconfig, context, who, do)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The name of the slice.")],
    nodes: Nodes = 1,
    selector: Labels = None,
    least: Least = None,
    claim: Annotated[
        str | None, typer.Option(help="The claim that it is for, as NAMESPACE/NAME.")
    ] = None,
    grace: Annotated[
        int, typer.Option(help="Seconds that pods which have to leave may take.", min=0, max=86_400)
    ] = DEFAULT_GRACE_SECONDS,
    until: Until = None,
    timeout: Timeout = 60.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Set nodes apart, as an administrator, and wait until they are."""
    spec = SliceSpec(
        selector=terms(selector or ()),
        node_count=nodes,
        resources=resources(least or ()),
        claim_ref=reference(claim),
        grace_seconds=grace,
        expires_at=moment(until),
    )
    made = Slice.named(tenant_name(name), spec=spec)

    async def do(client: Client) -> None:
        await client.create(made)
        found = await _until_reserved(client, name, timeout)
        print(f"slice {name} is {found.status.state}: {', '.join(found.status.nodes)}")

    act_as(kubeconfig, context, None, do)


@app.command()
def release(
    name: Annotated[str, typer.Argument(help="A slice; with -n, a claim.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="The namespace of the claim.")
    ] = None,
    timeout: Timeout = 180.0,
    who: ActAs = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Delete a slice or a claim. Waits until its nodes are shared again."""

    async def do(client: Client) -> None:
        found = name
        try:
            if namespace is not None:
                asked = await client.get(SliceClaim, tenant_name(name), tenant_name(namespace))
                await client.delete(SliceClaim, name, namespace)
                found = asked.status.slice
            else:
                await client.get(Slice, tenant_name(name))
                await client.delete(Slice, name)
        except NotFound:
            what = "slice" if namespace is None else "claim"
            raise BadTenantOption(f"there is no {what} {name}") from None
        try:
            await _until_shared(client, found, timeout)
        except Forbidden:
            # Owners do not see nodes.
            print(f"{name} is deleted; its nodes are shared when its pods have ended")
            return
        print(f"{name} is deleted, and its nodes are shared again")

    act_as(kubeconfig, context, who, do)


# Words as parts of objects ------------------------------------------------------------------


def terms(given: Sequence[str]) -> list[NodeTerm]:
    """`zone=a,disk=ssd`: one term with all of them."""
    labels: dict[str, str] = {}
    for part in (part.strip() for each in given for part in each.split(",")):
        label, equals, value = part.partition("=")
        if not label or not equals:
            raise BadTenantOption(f"{part!r} is no label: write it like zone=a")
        labels[label] = value
    return [NodeTerm(match_labels=labels)] if labels else []


def reference(given: str | None) -> ClaimRef | None:
    if given is None:
        return None
    namespace, slash, name = given.partition("/")
    if not slash:
        raise BadTenantOption(f"{given!r} is no claim: write it like NAMESPACE/NAME")
    return ClaimRef(namespace=tenant_name(namespace), name=tenant_name(name))


# Waiting ------------------------------------------------------------------------------------


async def _until_bound(client: Client, made: SliceClaim, timeout: float) -> SliceClaim:
    name, namespace = made.metadata.name, made.metadata.namespace
    until, said = time.monotonic() + timeout, ""
    while time.monotonic() < until:
        found = await client.get(SliceClaim, name, namespace)
        if found.status.state in (ClaimState.BOUND, ClaimState.EMPLOYED):
            return found
        said = next((each.message for each in found.status.conditions if each.message), "")
        await asyncio.sleep(POLL_SECONDS)
    raise Unavailable(f"claim {name} has no nodes yet: {said or 'does an operator run?'}")


async def _until_reserved(client: Client, name: str, timeout: float) -> Slice:
    until, said = time.monotonic() + timeout, ""
    while time.monotonic() < until:
        found = await client.get(Slice, name)
        if found.status.state and not found.status.state.startswith(SliceState.FAILED):
            return found
        said = next((each.message for each in found.status.conditions if each.message), "")
        await asyncio.sleep(POLL_SECONDS)
    raise Unavailable(f"slice {name} has no nodes yet: {said or 'does an operator run?'}")


async def _until_shared(client: Client, name: str, timeout: float) -> None:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if not name or not (await client.list(Node, labels=f"{SLICE}={name}")).items:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise Unavailable(f"nodes of {name} are not shared yet: pods of it may still be ending")
