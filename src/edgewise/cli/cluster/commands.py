"""`edgewise cluster`: which clusters there are, and who may use it."""

import asyncio
import dataclasses
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from edgewise.api.clusters import Cluster
from edgewise.api.global_sessions import Location
from edgewise.cli.cluster.hub_namespace import elsewhere, members, note_on_first
from edgewise.cli.options import Context, with_options
from edgewise.cli.session.text import table
from edgewise.clusters.enrolment import known_spec, self_contained
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.runtime.errors import ServiceError
from edgewise.sessions.hub.enrolment import (
    dismiss_location,
    enrol_location,
    known_location,
    set_cordoned,
    turn_secret_in,
)

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Hub = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The kubeconfig of the hub, if not the usual one."),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Where the hub's objects are, in the hub.")
]
ClusterName = Annotated[str, typer.Argument(help="The name of the cluster.")]


HEADER = ("NAME", "REGION", "HEALTH", "LOCATION", "CORDONED", "CAPACITY", "MESSAGE")

Part = TypeVar("Part", bound=msgspec.Struct)


class BadClusterOption(ServiceError):
    """Something on the command line that cannot be right."""


@dataclasses.dataclass(frozen=True)
class HubPlace:
    """Which hub is meant, and where its objects are."""

    kubeconfig: Hub = None
    context: Context = None
    namespace: Namespace = "default"

    def act(self, do: Callable[[Client], Awaitable[None]]) -> None:
        async def run() -> None:
            async with Client(load_access(self.kubeconfig, self.context)) as hub:
                await do(hub)

        asyncio.run(run())


of_a_hub = with_options("at", HubPlace)


@app.command()
@of_a_hub
def add(
    name: ClusterName,
    member: Annotated[
        Path | None,
        typer.Option("--member", help="The kubeconfig of the cluster; else it is the hub itself."),
    ] = None,
    member_context: Annotated[str | None, typer.Option(help="The context in that one.")] = None,
    member_namespace: Annotated[
        str | None,
        typer.Option(help="Where its sessions live, if not where the hub's objects do."),
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
    *,
    at: HubPlace,
) -> None:
    """Register a cluster that takes clients, or change one.

    What is not said stays as it is.
    """
    if not NAME.fullmatch(name):
        raise BadClusterOption(
            f"{name!r} cannot name a cluster: use up to 63 lower-case letters, digits and dashes"
        )
    if ping_http and not ping_http.startswith(("http://", "https://")):
        raise BadClusterOption(f"--ping-http must be a URL, not {ping_http!r}")
    if ping_udp and not ping_udp.rpartition(":")[2].isdigit():
        raise BadClusterOption(f"--ping-udp must be HOST:PORT, not {ping_udp!r}")
    if bool(turn_url) != (turn_secret_file is not None):
        raise BadClusterOption(
            "--turn-url and --turn-secret-file belong together: credentials for a TURN server are "
            "made with the secret that it knows"
        )
    content = self_contained(member, member_context) if member is not None else None
    turn_secret = turn_secret_in(turn_secret_file) if turn_secret_file is not None else None

    async def do(hub: Client) -> None:
        note = await note_on_first(hub, at.namespace)
        cluster = await known_spec(hub, at.namespace, name)
        location = await known_location(hub, at.namespace, name)
        await enrol_location(
            hub,
            at.namespace,
            name,
            cluster=_changed(
                cluster,
                region=region,
                ping=_changed(cluster.ping, http=ping_http, udp=ping_udp),
            ),
            location=_changed(
                location,
                namespace=member_namespace,
                capacity=capacity,
                turn=_changed(location.turn, urls=turn_url),
            ),
            kubeconfig=content,
            turn_secret=turn_secret,
        )
        print(f"{name} is registered in namespace {at.namespace}")
        if note:
            print(note, file=sys.stderr)

    at.act(do)


def _changed(known: Part, **said: object) -> Part:
    given = {field: value for field, value in said.items() if value is not None}
    return msgspec.structs.replace(known, **given)


@app.command("list")
@of_a_hub
def list_clusters(*, at: HubPlace) -> None:
    """The clusters."""

    async def do(hub: Client) -> None:
        found = await members(hub, at.namespace)
        if not found:
            other = await elsewhere(hub, at.namespace)
            advice = other or "add one with `edgewise cluster add`"
            print(f"There are no clusters in the hub of namespace {at.namespace}: {advice}.")
            return
        locations = (await hub.list(Location, at.namespace)).items
        print(table(HEADER, rows_of(found, locations)))

    at.act(do)


def rows_of(clusters: Iterable[Cluster], locations: Iterable[Location]) -> list[tuple[str, ...]]:
    """One row for each cluster, and more for one that has several locations."""
    by_name = {cluster.metadata.name: cluster for cluster in clusters}
    rows = [_row(each.spec.cluster, by_name.get(each.spec.cluster), each) for each in locations]
    used = {row[0] for row in rows}
    rows += [_row(name, cluster, None) for name, cluster in by_name.items() if name not in used]
    return sorted(rows)


def _row(name: str, cluster: Cluster | None, location: Location | None) -> tuple[str, ...]:
    spec = location.spec if location is not None else None
    return (
        name,
        (cluster.spec.region if cluster is not None else "") or "-",
        (cluster.status.health if cluster is not None else "") or "Unknown",
        location.metadata.name if location is not None else "-",
        "-" if spec is None else "yes" if spec.cordoned else "no",
        "-" if spec is None or spec.capacity is None else str(spec.capacity),
        _message(cluster, location),
    )


def _message(cluster: Cluster | None, location: Location | None) -> str:
    """What is wrong with a cluster, for everybody or for the clients of some templates."""
    if cluster is None:
        return "is not registered"
    if not cluster.status.health:
        return "no server has looked at it yet: start `edgewise server`"
    found = [cluster.status.message] if cluster.status.message else []
    if location is None:
        return "; ".join([*found, "takes no clients: it has no Location"])
    if location.status.message:
        found.append(location.status.message)
    for template, mark in sorted(location.status.degraded.items()):
        found.append(f"degraded for {template}: {mark.reason} {mark.message}".rstrip())
    return "; ".join(found)


@app.command()
@of_a_hub
def remove(name: ClusterName, *, at: HubPlace) -> None:
    """Take a cluster out; its clients are moved to others."""

    async def do(hub: Client) -> None:
        await dismiss_location(hub, at.namespace, name)
        print(f"{name} is no longer registered")

    at.act(do)


@app.command()
@of_a_hub
def cordon(name: ClusterName, *, at: HubPlace) -> None:
    """Let no new clients into a cluster; those who are there stay."""

    async def do(hub: Client) -> None:
        await set_cordoned(hub, at.namespace, name, True)
        print(f"{name} takes no new clients")

    at.act(do)


@app.command()
@of_a_hub
def uncordon(name: ClusterName, *, at: HubPlace) -> None:
    """Let new clients in again."""

    async def do(hub: Client) -> None:
        await set_cordoned(hub, at.namespace, name, False)
        print(f"{name} takes new clients")

    at.act(do)


def moment(days: float) -> float:
    return time.time() + days * 86_400


def shown(moment: float | None) -> str:
    return "-" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
