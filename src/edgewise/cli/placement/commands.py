"""`edgewise placement`: list, show, watch and explain."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edgewise.api.placement import LatencyPlacement
from edgewise.cli.missing_kinds import known_kinds
from edgewise.cli.placement.text import explained, explanation, listed, shown
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import NotFound, Unreachable
from edgewise.kube.unreadable import UnreadableObject

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
        with known_kinds("placements", access.server):
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
    json: Json = False,
) -> None:
    """Why it runs where it runs, what every node is out for, and what the search waits for."""

    async def run() -> None:
        async with connected(kubeconfig, context, namespace) as (client, within):
            why = explanation(await found(client, within, name))
            print(msgspec.json.encode(why).decode() if json else explained(why))

    asyncio.run(run())


@app.command()
def watch(
    name: Name,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    json: Json = False,
    until_ended: Annotated[
        bool,
        typer.Option(
            "--until-ended",
            help="Stop when no search runs any more: the first one, or that of now, has ended.",
        ),
    ] = False,
) -> None:
    """Ranking and rounds while they happen, until Ctrl-C."""

    async def run() -> None:
        async with connected(kubeconfig, context, namespace) as (client, within):
            said = ""
            while True:
                # How it stands comes first: a placement that is calm does not change for minutes.
                placement = await found(client, within, name)
                with contextlib.suppress(Unreachable):
                    async for each in states(client, placement):
                        if each is None:
                            print(f"{name} is gone")
                            return
                        text = as_json(each) if json else shown(each, live=True)
                        if text != said:
                            print(text, flush=True)
                            said = text
                        if until_ended and each.status.search.ended_at:
                            return
                await asyncio.sleep(RETRY_SECONDS)

    asyncio.run(run())


async def states(
    client: Client, placement: LatencyPlacement
) -> AsyncIterator[LatencyPlacement | None]:
    """How it stands now, and each change; None when it is gone. Ends when the watch does."""
    yield placement
    meta = placement.metadata
    async for change in client.watch(
        LatencyPlacement,
        meta.namespace,
        fields=f"metadata.name={meta.name}",
        resource_version=meta.resource_version,
    ):
        if change.unreadable is not None:
            raise UnreadableObject(change.unreadable)
        yield None if change.type == "DELETED" else change.object
