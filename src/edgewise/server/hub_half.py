"""What a domain brings to the server: one record, built once in every replica.

The server itself has the hub's connection, the registry of clusters, the connections to them,
identity and HTTP. A half adds caches, work and routes to that, and the server names none of them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Router
from prometheus_client import CollectorRegistry

from edgewise.clusters.connections import Connections
from edgewise.clusters.registry import Registry
from edgewise.errors import ReadableError
from edgewise.kube.objects import Object
from edgewise.runtime.connected_cluster import ConnectedCluster
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.tasks import Task
from edgewise.server.http.guard import Guard
from edgewise.server.http.problems import ProblemKind
from edgewise.server.identity.hub_credentials import HubCredentials
from edgewise.server.identity.permissions import Action

Part = TypeVar("Part")


class HubContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a half is built with, before anything runs: it asks `link` for its caches."""

    registry: Registry
    connections: Connections
    credentials: HubCredentials
    metrics: Metrics
    replica: str = ""
    clock: Callable[[], float] = time.time

    @property
    def link(self) -> ConnectedCluster:
        return self.registry.hub

    @property
    def namespace(self) -> str:
        return self.registry.namespace


class HttpContext(msgspec.Struct, frozen=True, kw_only=True):
    """What routes are made with, besides what their half has built."""

    guard: Guard
    credentials: HubCredentials
    clock: Callable[[], float] = time.time


def _nothing_to_do(_: Any) -> Sequence[Task]:
    return ()


async def _nothing_to_prepare(_: Any) -> None:
    return None


def _no_routes(_: Any, __: HttpContext) -> Sequence[Router]:
    return ()


def _no_bound(_: Any, __: str, ___: type[Object]) -> int | None:
    return None


def _nothing_to_show(_: Any, __: CollectorRegistry) -> None:
    return None


def _nothing_to_close(_: Any) -> None:
    return None


class HubHalf(msgspec.Struct, Generic[Part], frozen=True, kw_only=True, eq=False):
    """`build` makes what the other fields work on: one in each replica."""

    name: str
    build: Callable[[HubContext], Part]
    # Every route names one of them.
    actions: tuple[Action, ...] = ()
    routes: Callable[[Part, HttpContext], Sequence[Router]] = _no_routes
    # Errors of its own, and how they are answered.
    problems: tuple[ProblemKind, ...] = ()
    # What the patterns of its parameters ask for, in words, as the end of "the name …".
    patterns: Mapping[str, str] = msgspec.field(default_factory=dict)
    # Done once, before the caches are filled; repeated while the hub does not answer.
    prepare: Callable[[Part], Awaitable[None]] = _nothing_to_prepare
    # What every replica does, and what only the one does that leads. What fails begins again,
    # and its neighbours go on.
    tasks: Callable[[Part], Sequence[Task]] = _nothing_to_do
    duties: Callable[[Part], Sequence[Task]] = _nothing_to_do
    # How many bytes of a kind a member may send us; None where the kind is not its own.
    heaviest: Callable[[Part, str, type[Object]], int | None] = _no_bound
    show_metrics: Callable[[Part, CollectorRegistry], None] = _nothing_to_show
    # Ends requests that would go on for ever, when the server ends.
    close: Callable[[Part], None] = _nothing_to_close


Halves = Sequence[HubHalf[Any]]


class ClashingHalves(ReadableError):
    """Two halves would share a name; it is said when the server starts."""


def actions_of(halves: Halves) -> dict[str, Action]:
    """The tables of all domains as one, in which no name stands for two actions."""
    actions = [action for half in halves for action in half.actions]
    check_unique("the action", (action.name for action in actions))
    return {action.name: action for action in actions}


def check_unique(what: str, names: Iterable[str]) -> None:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise ClashingHalves(f"{what} {name!r} is there twice: give one another name")
        known.add(name)
