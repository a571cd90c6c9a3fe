"""Adding a cluster that takes clients, with its TURN servers, and taking it out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from edgewise.api.clusters import ClusterSpec
from edgewise.api.exposure import TURN_SECRET_KEY, Turn
from edgewise.api.global_sessions import Location, LocationSpec
from edgewise.api.secrets import labelled_secret
from edgewise.clusters.enrolment import FIELD_MANAGER, dismiss, enrol, gone
from edgewise.exposure.turn import TURN_LABEL, realm_of
from edgewise.kube.client import Client
from edgewise.kube.errors import ConfigError, NotFound
from edgewise.kube.kinds.core import Secret
from edgewise.runtime.errors import NotThere, Refused


def turn_secret_name(location: str) -> str:
    return f"edgewise-turn-{location}"


def turn_secret_in(file: Path) -> bytes:
    """Without the line break that editors put at the end, as the shell hands it to coturn."""
    try:
        return file.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error


async def enrol_location(
    hub: Client,
    namespace: str,
    name: str,
    *,
    cluster: ClusterSpec | None = None,
    location: LocationSpec | None = None,
    kubeconfig: bytes | None = None,
    turn_secret: bytes | None = None,
) -> None:
    """Add a cluster that takes clients, or make it what is said; what is secret becomes a Secret.

    The Location comes last: before it, nobody is sent there. Whatever is cut short, doing it
    again finishes it.
    """
    wanted = location or LocationSpec(cluster=name)
    shared = None
    if turn_secret is not None:
        turn, shared = _turn(namespace, name, wanted.turn, turn_secret)
        wanted = msgspec.structs.replace(wanted, turn=turn)
    await enrol(hub, namespace, name, cluster or ClusterSpec(), kubeconfig)
    if shared is not None:
        await hub.apply(shared, field_manager=FIELD_MANAGER)
    await hub.apply(Location.named(name, namespace, spec=wanted), field_manager=FIELD_MANAGER)
    if not wanted.turn.urls:
        # A secret that nobody uses any more is only there to be found.
        await gone(hub, Secret, turn_secret_name(name), namespace)


async def known_location(hub: Client, namespace: str, name: str) -> LocationSpec:
    """What the hub knows of the location that a cluster of this name has, or is to have."""
    try:
        known = (await hub.get(Location, name, namespace)).spec
    except NotFound:
        return LocationSpec(cluster=name)
    if known.cluster != name:
        raise Refused(
            f"{name} is a location in the cluster {known.cluster}: choose another name for the "
            f"cluster, or delete that location (`kubectl delete locations {name}`)"
        )
    return known


async def dismiss_location(hub: Client, namespace: str, name: str) -> None:
    """Take a cluster out with its locations; their clients are moved, their sessions stay there."""
    locations = await locations_in(hub, namespace, name)
    for location in locations:
        await gone(hub, Location, location, namespace)
    # Its own also if a command before this one was cut short here.
    for location in {*locations, name}:
        await gone(hub, Secret, turn_secret_name(location), namespace)
    if not await dismiss(hub, namespace, name) and not locations:
        raise NotThere(f"there is no cluster {name!r} in namespace {namespace}")


async def locations_in(hub: Client, namespace: str, cluster: str) -> list[str]:
    found = (await hub.list(Location, namespace)).items
    return [each.metadata.name for each in found if each.spec.cluster == cluster]


async def set_cordoned(hub: Client, namespace: str, name: str, cordoned: bool) -> None:
    """Let no new clients into a location, or let them in again. Other work there goes on."""
    await _change(hub, namespace, name, {"cordoned": cordoned})


async def set_turn(hub: Client, namespace: str, name: str, turn: Turn, secret: bytes) -> None:
    """Say where the TURN servers of a location are, and what they know."""
    turn, shared = _turn(namespace, name, turn, secret)
    await hub.apply(shared, field_manager=FIELD_MANAGER)
    await _change(hub, namespace, name, {"turn": msgspec.to_builtins(turn)})


async def _change(hub: Client, namespace: str, name: str, spec: dict[str, Any]) -> None:
    try:
        await hub.patch(Location, name, namespace, body={"spec": spec}, field_manager=FIELD_MANAGER)
    except NotFound:
        raise NotThere(f"there is no location {name!r} in namespace {namespace}") from None


def _turn(namespace: str, name: str, turn: Turn, content: bytes) -> tuple[Turn, Secret]:
    data = {TURN_SECRET_KEY: content}
    secret = labelled_secret(turn_secret_name(name), namespace, TURN_LABEL, data)
    turn = msgspec.structs.replace(turn, secret=secret.metadata.name)
    realm_of(turn, secret)  # what the server would refuse is not written at all
    return turn, secret
