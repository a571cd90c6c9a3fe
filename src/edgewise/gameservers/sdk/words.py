"""What a sidecar sends and is sent, and what of it goes into objects. Pure."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from edgewise.api.games import Allocation, Server

# The labels and annotations of a game begin with this, so that it can change none of ours.
PREFIX = "sdk.edgewise.dev/"

# What a game may say at once, and what of it and of what it said before is kept.
MOST_SAID = 32
MOST_KEPT = 64

# `$` also matches before a line feed at the end, which the API server would refuse.
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
Name = Annotated[str, Meta(pattern=rf"^{_WORD}\Z")]
Value = Annotated[str, Meta(pattern=rf"^({_WORD})?\Z")]
Moment = Annotated[str, Meta(max_length=40)]
Uid = Annotated[str, Meta(max_length=64)]


class Said(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """All that a game has said so far. The sidecar sends it whole, however often."""

    allowed: bool | None = None
    allowed_since: Moment | None = None
    ready: bool | None = None
    healthy: bool | None = None
    shutdown: bool | None = None
    allocated: bool | None = None
    reserved_until: Moment | None = None
    released: Uid = ""
    acknowledged: Uid = ""
    players: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    labels: Annotated[dict[Name, Value], Meta(max_length=MOST_SAID)] = {}
    annotations: Annotated[
        dict[Name, Annotated[str, Meta(max_length=1024)]], Meta(max_length=MOST_SAID)
    ] = {}


class Shutdown(msgspec.Struct, rename="camel", kw_only=True):
    shutdown: bool = False
    why: str = ""
    deadline: str = ""


class Match(msgspec.Struct, rename="camel", kw_only=True):
    uid: str
    match: str = ""
    players: list[str] = []
    metadata: dict[str, str] = {}


class View(msgspec.Struct, rename="camel", kw_only=True):
    """What a game is told of its server."""

    name: str
    state: str = ""
    shutdown: Shutdown
    allocation: Match | None = None
    address: str = ""
    ports: dict[str, int] = {}
    labels: dict[str, str] = {}


def view_of(server: Server, allocation: Allocation | None) -> View:
    """`allocation` is that of the match that has the server."""
    status, asked = server.status, server.status.shutdown
    taken = None
    if allocation is not None:
        spec = allocation.spec
        taken = Match(
            uid=allocation.metadata.uid,
            match=spec.match,
            players=spec.players,
            metadata=spec.metadata,
        )
    # A deleted Server is asked from that moment on, also before its status says so.
    deleting = server.metadata.deleting
    return View(
        name=server.metadata.name,
        state="Allocated" if taken and status.state == "Ready" else status.state,
        shutdown=Shutdown(
            shutdown=asked is not None or deleting,
            why=asked.why if asked else ("Deleted" if deleting else ""),
            deadline=(asked.deadline or "") if asked else "",
        ),
        allocation=taken,
        address=status.address,
        ports={each.name: each.port for each in status.ports},
        labels=server.metadata.labels,
    )


def status_patch(server: Server, said: Said, pod_uid: str) -> dict[str, Any]:
    """What of the status changes with these words; empty: nothing."""
    game = {
        "pod": pod_uid,
        "ready": said.ready,
        "healthy": said.healthy,
        "shutdown": said.shutdown,
        "allocated": said.allocated,
        "reservedUntil": said.reserved_until,
        "released": said.released or None,
        "acknowledged": said.acknowledged or None,
        "players": said.players,
    }
    allowed = None
    if said.allowed is not None:
        allowed = {"value": said.allowed, "since": said.allowed_since}
    before = server.status.game
    old = msgspec.to_builtins(before) if before else {}
    old_allowed = msgspec.to_builtins(server.status.allowed) if server.status.allowed else {}
    changed = {name: value for name, value in game.items() if old.get(name) != value}
    patch: dict[str, Any] = {}
    if changed:
        patch["game"] = changed
    if (allowed or {}) != old_allowed:
        patch["allowed"] = allowed
    return patch


def metadata_patch(server: Server, said: Said) -> dict[str, Any]:
    """Labels and annotations of the game. Those that it takes back stay, as it is simplest, until
    they are many: a game that says others each time must not fill its Server."""
    patch: dict[str, Any] = {}
    for kind, given, there in (
        ("labels", said.labels, server.metadata.labels),
        ("annotations", said.annotations, server.metadata.annotations),
    ):
        words = {f"{PREFIX}{name}": value for name, value in given.items()}
        changed: dict[str, str | None] = {
            name: value for name, value in words.items() if there.get(name) != value
        }
        kept = [name for name in there if name.startswith(PREFIX) and name not in words]
        if len(kept) + len(words) > MOST_KEPT:
            changed |= dict.fromkeys(kept)
        if changed:
            patch[kind] = changed
    return patch
