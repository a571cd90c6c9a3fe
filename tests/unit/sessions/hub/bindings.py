"""Bindings for tests, in a cache that is fed like a watch feeds it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from edgewise.api.global_sessions import (
    BindingState,
    ClientBinding,
    ClientBindingSpec,
    GlobalSession,
    GlobalSessionSpec,
    Location,
    LocationSpec,
    binding_name,
)
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.caching.cache import Cache

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def binding(client: str, cluster: str = "", *, rv: int = 0, **spec: Any) -> ClientBinding:
    state = BindingState.SEATED if cluster else BindingState.QUEUED
    session = spec.pop("session", "room-1")
    uid = spec.pop("session_uid", "u-1")
    return ClientBinding(
        metadata=ObjectMeta(
            name=binding_name(session, uid, client),
            namespace="edge",
            uid=f"uid-{client}",
            resource_version=str(rv),
        ),
        spec=ClientBindingSpec(
            session=session,
            session_uid=uid,
            client=client,
            location=cluster,
            **{"state": state, "since": EPOCH, **spec},
        ),
    )


def global_session(name: str = "room-1", uid: str = "u-1", **spec: Any) -> GlobalSession:
    return GlobalSession(
        metadata=ObjectMeta(name=name, namespace="edge", uid=uid, resource_version="1"),
        spec=GlobalSessionSpec(**{"template": "demo", "owner": "arena", **spec}),
    )


def location(name: str, cluster: str = "", **spec: Any) -> Location:
    return Location(
        metadata=ObjectMeta(name=name, namespace="edge", uid=f"l-{name}", resource_version="1"),
        spec=LocationSpec(cluster=cluster or name, **spec),
    )


class Hubs:
    """One order of writes, as the hub decides it, and caches that are shown it at their pace."""

    def __init__(self, caches: int) -> None:
        self.log: list[tuple[ClientBinding, bool]] = []
        self.caches = [Cache(ClientBinding) for _ in range(caches)]
        self.shown = [0] * caches
        for cache in self.caches:
            cache.replace([], "0")

    def write(self, written: ClientBinding, *, deleted: bool = False) -> ClientBinding:
        written.metadata.resource_version = str(len(self.log) + 1)
        self.log.append((written, deleted))
        return written

    def show(self, cache: int, upto: int | None = None) -> None:
        end = len(self.log) if upto is None else upto
        for written, deleted in self.log[self.shown[cache] : end]:
            self.caches[cache].apply(written, deleted=deleted)
        self.shown[cache] = max(self.shown[cache], end)
