"""`edgewise placement`: list, show, watch and explain."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

import msgspec
import typer

from edgewise.api.placement import LatencyPlacement
from edgewise.cli.missing_kinds import known_kinds
from edgewise.cli.options import AsJson, InNamespace, with_options
from edgewise.cli.placement.text import explained, explanation, listed, shown
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import NotFound, Unreachable
from edgewise.kube.unreadable import UnreadableObject

app = typer.Typer(no_args_is_help=True, help="See where services run, and why there.")

Name = Annotated[str, typer.Argument(help="The LatencyPlacement.")]

RETRY_SECONDS = 1.0


class NoSuchPlacement(ReadableError):
    """There is none of that name, with those that there are."""


@dataclasses.dataclass(frozen=True)
class Where(InNamespace):
    """Whose placements are meant."""

    def act(self, do: Callable[[Client, str], Awaitable[None]]) -> None:
        """With the client, and the namespace."""

        async def run() -> None:
            access = load_access(self.kubeconfig, self.context)
            async with Client(access, user_agent="edgewise-placement") as client:
                with known_kinds("placements", access.server):
                    await do(client, self.namespace or access.namespace or "default")

        asyncio.run(run())


somewhere = with_options("where", Where)


async def found(client: Client, namespace: str, name: str) -> LatencyPlacement:
    try:
        return await client.get(LatencyPlacement, name, namespace)
    except NotFound:
        there = (await client.list(LatencyPlacement, namespace)).items
        names = ", ".join(sorted(each.metadata.name for each in there)[:12]) or "none"
        raise NoSuchPlacement(
            f"there is no LatencyPlacement {name!r} in namespace {namespace}; there are: {names}"
        ) from None


def json_of(placement: LatencyPlacement) -> str:
    return msgspec.json.encode(
        {
            "namespace": placement.metadata.namespace,
            "name": placement.metadata.name,
            "spec": msgspec.to_builtins(placement.spec),
            "status": msgspec.to_builtins(placement.status),
        }
    ).decode()


@app.command("list")
@somewhere
def list_(
    *,
    where: Where,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """All placements: phase, round, moves, and the nodes in words."""

    async def do(client: Client, namespace: str) -> None:
        listing = await client.list(LatencyPlacement, None if everywhere else namespace)
        placements = sorted(listing.items, key=lambda each: each.key)
        if as_json:
            for each in placements:
                print(json_of(each))
        else:
            print(listed(placements, everywhere=everywhere))

    where.act(do)


@app.command()
@somewhere
def show(name: Name, *, where: Where, as_json: AsJson = False) -> None:
    """One placement: its ranking, and the round that runs."""

    async def do(client: Client, namespace: str) -> None:
        placement = await found(client, namespace, name)
        print(json_of(placement) if as_json else shown(placement))

    where.act(do)


@app.command()
@somewhere
def explain(name: Name, *, where: Where, as_json: AsJson = False) -> None:
    """Why it runs where it runs, and not elsewhere. What every node is out for, and what the
    search waits for."""

    async def do(client: Client, namespace: str) -> None:
        why = explanation(await found(client, namespace, name))
        print(msgspec.json.encode(why).decode() if as_json else explained(why))

    where.act(do)


@app.command()
@somewhere
def watch(
    name: Name,
    *,
    where: Where,
    as_json: AsJson = False,
    until_ended: Annotated[
        bool,
        typer.Option(
            "--until-ended",
            help="Stop when no search runs any more: the first one, or that of now, has ended.",
        ),
    ] = False,
) -> None:
    """Ranking and rounds while they happen, until Ctrl-C."""

    async def do(client: Client, namespace: str) -> None:
        said = ""
        while True:
            # How it stands comes first: a placement that is calm does not change for minutes.
            placement = await found(client, namespace, name)
            with contextlib.suppress(Unreachable):
                async for each in states(client, placement):
                    if each is None:
                        print(f"{name} is gone")
                        return
                    text = json_of(each) if as_json else shown(each, live=True)
                    if text != said:
                        print(text, flush=True)
                        said = text
                    if until_ended and each.status.search.ended_at:
                        return
            await asyncio.sleep(RETRY_SECONDS)

    where.act(do)


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
