"""`edgewise placement`: list, show, watch and explain."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edgewise.api.placement import LatencyPlacement
from edgewise.cli.placement.text import explained, listed, shown
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import NotFound, Unreachable

app = typer.Typer(no_args_is_help=True, help="See where services run, and why there.")

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The kubeconfig to use instead of the usual one."),
]
Context = Annotated[str | None, typer.Option("--context", help="The context in it.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="The namespace; else that of the context.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="The LatencyPlacement.")]

RETRY_SECONDS = 1.0


class NoSuchPlacement(Exception):
    """There is none of that name, with those that there are."""


@contextlib.asynccontextmanager
async def connected(
    kubeconfig: Path | None, context: str | None, namespace: str | None
) -> AsyncIterator[tuple[Client, str]]:
    access = load_access(kubeconfig, context)
    async with Client(access, user_agent="edgewise-placement") as client:
        yield client, namespace or access.namespace or "default"


async def found(client: Client, namespace: str, name: str) -> LatencyPlacement:
    try:
        return await client.get(LatencyPlacement, name, namespace)
    except NotFound:
        there = (await client.list(LatencyPlacement, namespace)).items
        names = ", ".join(sorted(each.metadata.name for each in there)[:12]) or "none"
        raise NoSuchPlacement(
            f"there is no LatencyPlacement {name!r} in namespace {namespace}; there are: {names}"
        ) from None


def as_json(placement: LatencyPlacement) -> str:
    return msgspec.json.encode(
        {
            "namespace": placement.metadata.namespace,
            "name": placement.metadata.name,
            "spec": msgspec.to_builtins(placement.spec),
            "status": msgspec.to_builtins(placement.status),
        }
    ).decode()


@app.command("list")
def list_(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")
    ] = False,
    json: Json = False,
) -> None:
    """All placements: phase, round, moves, and the nodes in words."""

    async def run() -> None:
        async with connected(kubeconfig, context, namespace) as (client, within):
            where = None if everywhere else within
            placements = (await client.list(LatencyPlacement, where)).items
            placements.sort(key=lambda each: each.key)
            if json:
                for each in placements:
                    print(as_json(each))
            else:
                print(listed(placements, everywhere=everywhere))

    asyncio.run(run())


@app.command()
def show(
    name: Name,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """One placement: its ranking, and the round that runs."""

    async def run() -> None:
        async with connected(kubeconfig, context, namespace) as (client, within):
            placement = await found(client, within, name)
            print(as_json(placement) if json else shown(placement))

    asyncio.run(run())


@app.command()
def explain(
    name: Name,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Why it runs where it runs, what every node is out for, and what the search waits for."""

    async def run() -> None:
        async with connected(kubeconfig, context, namespace) as (client, within):
            print(explained(await found(client, within, name)))

    asyncio.run(run())


@app.command()
def watch(
    name: Name,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    json: Json = False,
    until_ended: Annotated[
        bool, typer.Option("--until-ended", help="Stop when the search that runs has ended.")
    ] = False,
) -> None:
    """Ranking and rounds while they happen, until Ctrl-C."""

    async def run() -> None:
        async with connected(kubeconfig, context, namespace) as (client, within):
            placement = await found(client, within, name)
            number = placement.status.search.number
            while True:
                said = ""
                with contextlib.suppress(Unreachable):
                    async for change in client.watch(
                        LatencyPlacement,
                        within,
                        fields=f"metadata.name={name}",
                        resource_version=placement.metadata.resource_version,
                    ):
                        if change.type == "DELETED":
                            print(f"{name} is gone")
                            return
                        placement = change.object
                        text = as_json(placement) if json else shown(placement, live=True)
                        if text != said:
                            print(text, flush=True)
                            said = text
                        search = placement.status.search
                        if until_ended and search.ended_at and search.number >= max(1, number):
                            return
                await asyncio.sleep(RETRY_SECONDS)
                placement = await found(client, within, name)

    asyncio.run(run())
