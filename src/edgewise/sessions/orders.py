"""What a plan wants done: each an order that may be carried out twice without harm."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.sessions import ClientStatus, Reset
from edgewise.exposure.port_index import PortClaimSeen
from edgewise.exposure.route import Route
from edgewise.sessions.observed import ClaimSeen
from edgewise.sessions.pods import ANYWHERE, Made, Spot
from edgewise.workloads.children import ChildSeen
from edgewise.workloads.pods_seen import PodSeen


class CreatePod(msgspec.Struct, frozen=True):
    name: str
    ordinal: int
    made: Made
    pooled: bool  # it belongs to the template, so that other sessions can have it later
    spot: Spot = ANYWHERE
    rank: int = 0  # the lower, the more urgent


class ClaimPod(msgspec.Struct, frozen=True):
    """Take a pooled pod: only one session can."""

    pod: PodSeen
    lease: ClaimSeen | None  # None: nobody had it yet
    ordinal: int


class ClaimPort(msgspec.Struct, frozen=True):
    number: int
    protocol: str
    holder: str
    port: str
    # An unused claim of our own, to be confirmed before it counts.
    existing: PortClaimSeen | None = None


class RemovePod(msgspec.Struct, frozen=True):
    pod: PodSeen
    lease: ClaimSeen | None = None


class ReleasePod(msgspec.Struct, frozen=True):
    """Give a clean pod back to the pool, where it waits until then."""

    pod: PodSeen
    lease: ClaimSeen | None
    seconds: int


class FreePort(msgspec.Struct, frozen=True):
    claim: PortClaimSeen


class ResetPod(msgspec.Struct, frozen=True):
    pod: PodSeen
    reset: Reset
    port: int
    attempt: str  # another one each time that the pod has to be made clean


class ApplyChild(msgspec.Struct, frozen=True):
    kind: str
    name: str
    digest: str
    manifest: dict[str, Any]
    new: bool = False  # whether it is not there yet, under a name that anybody could have taken


class RemoveChild(msgspec.Struct, frozen=True):
    child: ChildSeen


class Publication(msgspec.Struct, frozen=True):
    """A client that is ready once the gateways serve these routes."""

    client: str
    routes: tuple[Route, ...]
    ready: ClientStatus
    unserved: ClientStatus  # its record, if they do not


class Note(msgspec.Struct, frozen=True):
    """Something worth telling a person."""

    reason: str
    text: str
    warning: bool = False


class Tally(msgspec.Struct):
    """What to count, once it is true."""

    joins: int = 0
    reuses: int = 0
    warm_hits: int = 0
    warm_misses: int = 0
    recoveries: int = 0
    expiries: int = 0
    refusals: int = 0
    late: list[float] = []  # how late each deadline was noticed
