"""Whoever writes a server, a fleet or a game must be allowed to create its pods, and these are
tried out before it is stored.

The operator makes them with its own rights; what it asks of their author is said in
`edgewise.workloads.authors`. It asks when one of the three is created, and when a part of it
changes that pods are made of, also while it is being deleted: a fleet stays until its servers
are gone. Numbers of servers, deadlines, operations, labels and status pass without a question,
and while no operator answers.

What the operator itself writes is not asked about: it makes fleets of games and servers of
fleets, and their author was asked at the game or the fleet. It is known by its name, which only
the API server gives, and has to be allowed to create pods in all namespaces: a name alone is
believed of nobody.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from edgewise.api.games import (
    GROUP,
    Fleet,
    GameType,
    PortPolicy,
    Scheduling,
    Server,
    ServerSpec,
)
from edgewise.gameservers import names
from edgewise.gameservers.server.manifest import malformed, pod_of
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.client import Client
from edgewise.kube.kinds.admission import MatchCondition
from edgewise.kube.kinds.core import Pod
from edgewise.kube.shallow import DEEPEST, is_deep
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, Verdict
from edgewise.runtime.webhooks.serving import Webhook
from edgewise.workloads.author_review import AskedRights, Rights, review_author
from edgewise.workloads.authors import PODS, Right, accounts, exemption
from edgewise.workloads.rehearsal import DryRun, Rehearsal, rehearse

ESCALATE = exemption(GROUP)
# A reviewer asks the API server about rights, and then about the pod.
REVIEW_SECONDS = 10
# What the manifest of a pod is made of, as the API server names the fields.
PARTS = ("pod", "podMetadata", "ports", "sidecar")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind has its servers' spec, and by which label these know it."""

    kind: type[Any]
    at: str
    find: Callable[[Any], ServerSpec]
    label: str = ""


def _of_server(server: Server) -> ServerSpec:
    return server.spec


def _of_fleet(fleet: Fleet) -> ServerSpec:
    return fleet.spec.spec


def _of_game(game: GameType) -> ServerSpec:
    return game.spec.fleet_spec.spec


PLACES = (
    Place(kind=Server, at="spec", find=_of_server),
    Place(kind=Fleet, at="spec.spec", find=_of_fleet, label=names.FLEET),
    Place(kind=GameType, at="spec.fleetSpec.spec", find=_of_game, label=names.TYPE),
)


def webhooks_of_games(
    client: Client, namespace: str, settings: Settings | None = None, *, check_authors: bool = True
) -> list[Webhook[Any]]:
    """`namespace` is the operator's own."""
    rights = AskedRights(client) if check_authors else None
    stage = Stage(DryRun(client), settings or Settings())
    by_others = MatchCondition(name="not-by-the-operator", expression=not_by_operator(namespace))
    return [
        Webhook(
            name=f"{place.kind.KIND.plural}.{GROUP}",
            kind=place.kind,
            review=reviewer(place, rights, stage),
            timeout_seconds=REVIEW_SECONDS,
            match_conditions=(
                MatchCondition(name="the-pod-changed", expression=pod_changed(place.at)),
                by_others,
            ),
        )
        for place in PLACES
    ]


def pod_changed(at: str) -> str:
    """In CEL, which has no way to take a few fields out of a map and compare the rest."""
    changes = []
    for part in PARTS:
        new, old = f"object.{at}.{part}", f"oldObject.{at}.{part}"
        changes.append(f"has({new}) != has({old}) || (has({new}) && {new} != {old})")
    return "oldObject == null || " + " || ".join(changes)


def not_by_operator(namespace: str) -> str:
    account = f"system:serviceaccount:{namespace}:{names.OPERATOR_ACCOUNT}"
    return (
        f"!(request.userInfo.username in ['{names.OPERATOR_USER}', '{account}'] && "
        "authorizer.group('').resource('pods').check('create').allowed())"
    )


class Stage(msgspec.Struct, frozen=True):
    """Where pods are tried out, and what the operator puts into them."""

    rehearsal: Rehearsal
    settings: Settings


def reviewer(
    place: Place, rights: Rights | None, stage: Stage | None = None
) -> Callable[[AdmissionRequest[Any]], Awaitable[Verdict]]:
    """Without `rights` everybody who may write a server may have its pod made; without `stage`
    it is not tried out."""

    async def review(request: AdmissionRequest[Any]) -> Verdict:
        new, old = request.object, request.old_object
        if new is None:
            return Allowed()
        spec = place.find(new)
        if old is not None and described(place.find(old)) == described(spec):
            return Allowed()
        at = f"{place.at}.pod"
        if problem := shape_problem(spec.pod, at):
            return Denied(problem, code=422)
        if rights is not None:
            denied = await review_author(
                request.user, request.namespace, needed(spec, at), at, rights, exempt=ESCALATE
            )
            if denied is not None:
                return denied
        if stage is None:
            return Allowed()
        pod = pod_to_try(place, request.name, request.namespace, spec, stage.settings)
        return await rehearse([(pod, at)], stage.rehearsal)

    return review


def shape_problem(pod: dict[str, Any], at: str) -> str:
    if is_deep(pod):
        return f"{at} is nested deeper than {DEEPEST} levels"
    problem = malformed(pod)
    return f"{at}.{problem}" if problem else ""


def pod_to_try(
    place: Place, name: str, namespace: str, spec: ServerSpec, settings: Settings
) -> Pod:
    """What the operator would make, under a name that no pod has."""
    new = f"{name[:40] or 'edgewise'}-{secrets.token_hex(4)}"
    server = Server.named(new, namespace, spec=spec)
    if place.label:
        server.metadata.labels = {
            place.label: name,
            names.SCHEDULING: str(Scheduling.PACKED),
        }
    ports = {}
    for number, port in enumerate(spec.ports):
        if port.policy is PortPolicy.STATIC:
            ports[port.name] = port.host_port or settings.ports.first
        elif port.policy is not PortPolicy.NONE:
            ports[port.name] = settings.ports.first + number
    pod = pod_of(server, settings, ports)
    pod.metadata.owner_references = []
    return pod


def described(spec: ServerSpec) -> bytes:
    """The parts that pods are made of; as JSON, where 1 and true are not the same."""
    parts = (spec.pod, spec.pod_metadata, spec.ports, spec.sidecar)
    return msgspec.json.encode(parts, order="sorted")


def needed(spec: ServerSpec, at: str) -> dict[Right, str]:
    """What the author must be allowed, and the field for which."""
    return {PODS: at, **dict(accounts(spec.pod, at))}
