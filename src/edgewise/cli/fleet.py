"""`edgewise fleet`: which clusters belong to the fleet, and who may use it."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from edgewise.api.fleet import MemberCluster
from edgewise.cli.session_text import table
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.server.enrolment import (
    dismiss,
    enrol,
    known_spec,
    self_contained,
    set_cordoned,
    turn_secret_in,
)
from edgewise.server.errors import FleetError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Hub = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The kubeconfig of the hub, if not the usual one."),
]
Context = Annotated[str | None, typer.Option(help="The context in it.")]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Where the fleet's objects are, in the hub.")
]
Cluster = Annotated[str, typer.Argument(help="The name of the cluster in the fleet.")]


Part = TypeVar("Part", bound=msgspec.Struct)


class BadFleetOption(FleetError):
    """Something on the command line that cannot be right."""


def with_hub(
    kubeconfig: Path | None, context: str | None, do: Callable[[Client], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with Client(load_access(kubeconfig, context)) as hub:
            await do(hub)

    asyncio.run(run())


@app.command()
def add(
    name: Cluster,
    member: Annotated[
        Path | None,
        typer.Option("--member", help="The kubeconfig of the cluster; else it is the hub itself."),
    ] = None,
    member_context: Annotated[str | None, typer.Option(help="The context in that one.")] = None,
    member_namespace: Annotated[
        str | None,
        typer.Option(help="Where its sessions live, if not where the fleet's objects do."),
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="For people, and for sessions that ask for it.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(min=0, help="How many clients it takes; else there is no bound.")
    ] = None,
    ping_http: Annotated[str | None, typer.Option(help="URL of its ping agent.")] = None,
    ping_udp: Annotated[str | None, typer.Option(help="HOST:PORT of its ping agent.")] = None,
    turn_url: Annotated[
        list[str] | None,
        typer.Option(help="A TURN server of it, such as turn:203.0.113.5:3478; may be repeated."),
    ] = None,
    turn_secret_file: Annotated[
        Path | None, typer.Option(help="Holds the secret that its TURN servers know.")
    ] = None,
    kubeconfig: Hub = None,
    context: Context = None,
    namespace: Namespace = "default",
) -> None:
    """Add a cluster to the fleet, or change what the fleet knows of it.

    What is not said stays as it is.
    """
    if not NAME.fullmatch(name):
        raise BadFleetOption(
            f"{name!r} cannot name a cluster: use up to 63 lower-case letters, digits and dashes"
        )
    if ping_http and not ping_http.startswith(("http://", "https://")):
        raise BadFleetOption(f"--ping-http must be a URL, not {ping_http!r}")
    if ping_udp and not ping_udp.rpartition(":")[2].isdigit():
        raise BadFleetOption(f"--ping-udp must be HOST:PORT, not {ping_udp!r}")
    if bool(turn_url) != (turn_secret_file is not None):
        raise BadFleetOption(
            "--turn-url and --turn-secret-file belong together: credentials for a TURN server are "
            "made with the secret that it knows"
        )
    content = self_contained(member, member_context) if member is not None else None
    turn_secret = turn_secret_in(turn_secret_file) if turn_secret_file is not None else None

    async def do(hub: Client) -> None:
        known = await known_spec(hub, namespace, name)
        spec = _changed(
            known,
            namespace=member_namespace,
            region=region,
            capacity=capacity,
            ping=_changed(known.ping, http=ping_http, udp=ping_udp),
            turn=_changed(known.turn, urls=turn_url),
        )
        await enrol(hub, namespace, name, spec, content, turn_secret=turn_secret)
        print(f"{name} is in the fleet")

    with_hub(kubeconfig, context, do)


def _changed(known: Part, **said: object) -> Part:
    given = {field: value for field, value in said.items() if value is not None}
    return msgspec.structs.replace(known, **given)


@app.command("list")
def list_clusters(
    kubeconfig: Hub = None, context: Context = None, namespace: Namespace = "default"
) -> None:
    """The clusters of the fleet."""

    async def do(hub: Client) -> None:
        listing = await hub.list(MemberCluster, namespace)
        if not listing.items:
            print("There are no clusters in the fleet: add one with `edgewise fleet add`.")
            return
        rows = [
            (
                cluster.metadata.name,
                cluster.spec.region or "-",
                cluster.status.health or "Unknown",
                "yes" if cluster.spec.cordoned else "no",
                "-" if cluster.spec.capacity is None else str(cluster.spec.capacity),
                cluster.status.message,
            )
            for cluster in sorted(listing.items, key=lambda each: each.metadata.name)
        ]
        header = ("NAME", "REGION", "HEALTH", "CORDONED", "CAPACITY", "MESSAGE")
        print(table(header, rows))

    with_hub(kubeconfig, context, do)


@app.command()
def remove(
    name: Cluster,
    kubeconfig: Hub = None,
    context: Context = None,
    namespace: Namespace = "default",
) -> None:
    """Take a cluster out of the fleet; its clients are moved to others."""

    async def do(hub: Client) -> None:
        await dismiss(hub, namespace, name)
        print(f"{name} is no longer in the fleet")

    with_hub(kubeconfig, context, do)


@app.command()
def cordon(
    name: Cluster,
    kubeconfig: Hub = None,
    context: Context = None,
    namespace: Namespace = "default",
) -> None:
    """Let no new clients into a cluster; those who are there stay."""

    async def do(hub: Client) -> None:
        await set_cordoned(hub, namespace, name, True)
        print(f"{name} takes no new clients")

    with_hub(kubeconfig, context, do)


@app.command()
def uncordon(
    name: Cluster,
    kubeconfig: Hub = None,
    context: Context = None,
    namespace: Namespace = "default",
) -> None:
    """Let new clients in again."""

    async def do(hub: Client) -> None:
        await set_cordoned(hub, namespace, name, False)
        print(f"{name} takes new clients")

    with_hub(kubeconfig, context, do)


def moment(days: float) -> float:
    return time.time() + days * 86_400


def shown(moment: float | None) -> str:
    return "-" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
