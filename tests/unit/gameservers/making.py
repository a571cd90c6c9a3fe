"""Servers and fleets as plans see them, made in one line."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.games import GROUP, VERSION, Fleet, Server
from edgewise.gameservers import names
from edgewise.gameservers.server.observed import NodeFacts, Observed, PodFacts, Taken
from edgewise.workloads.deadlines import stamp

NOW = 1_700_000_000.0
POD = {"containers": [{"name": "game", "image": "game:1"}]}
READY = PodFacts(
    uid="p1", ip="10.0.0.1", host_ip="192.0.2.1", node="n1", running=True, ready=True, started=True
)
STARTING = PodFacts(uid="p1", reason="Scheduling", text="no node was chosen yet")
NOBODY = Taken(uid="a1", retired=True)
SOMEBODY = Taken(uid="a1")


def server(
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    *,
    deleting: bool = False,
    finalizer: bool = True,
) -> Server:
    meta: dict[str, Any] = {
        "name": "arena-1",
        "namespace": "play",
        "uid": "s1",
        "creationTimestamp": stamp(NOW),
        "finalizers": [names.SERVER_FINALIZER] if finalizer else [],
    }
    if deleting:
        meta["deletionTimestamp"] = stamp(NOW)
    return msgspec.convert(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Server",
            "metadata": meta,
            "spec": {"pod": POD, **(spec or {})},
            "status": status or {},
        },
        Server,
    )


def seen(
    pod: PodFacts | None = READY,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    *,
    deleting: bool = False,
    finalizer: bool = True,
    **more: Any,
) -> Observed:
    found = server(spec, status, deleting=deleting, finalizer=finalizer)
    return Observed(server=found, pod=pod, **more)


def said(**words: Any) -> dict[str, Any]:
    """A status that holds what the game of the pod has said."""
    allowed = words.pop("allowed", None)
    status: dict[str, Any] = {"state": "Ready", "game": {"pod": "p1", **words}}
    if allowed is not None:
        status["allowed"] = {"value": True, "since": stamp(allowed)}
    return status


def fleet(status: dict[str, Any] | None = None, *, deleting: bool = False, **spec: Any) -> Fleet:
    meta: dict[str, Any] = {"name": "arena", "namespace": "play", "uid": "f1", "generation": 1}
    if deleting:
        meta["deletionTimestamp"] = stamp(NOW)
    return msgspec.convert(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Fleet",
            "metadata": meta,
            "spec": {"spec": {"pod": POD}, **spec},
            "status": status or {},
        },
        Fleet,
    )


__all__ = ["NOBODY", "NOW", "READY", "SOMEBODY", "STARTING", "NodeFacts", "fleet", "said", "seen"]
