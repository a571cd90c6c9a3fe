"""Servers, fleets, game types and autoscalers made and deleted over HTTP, and labels of pods.

For callers without rights in Kubernetes. What they say is passed on as far as it is theirs to say;
the API server and its policies decide as for everybody.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from edgewise.api.games import Fleet, GameAutoscaler, GameType, Operation, Server
from edgewise.gameservers import names
from edgewise.gameservers.allocation.errors import ClusterBusy, GamesUnreachable
from edgewise.gameservers.hub.records import Games
from edgewise.kube.errors import (
    AlreadyExists,
    ApiError,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Object
from edgewise.kube.paths import collection_path
from edgewise.runtime.errors import NotThere, Refused, ServiceError, Unacceptable

KINDS: dict[str, type[Object]] = {
    "server": Server,
    "fleet": Fleet,
    "gametype": GameType,
    "gameautoscaler": GameAutoscaler,
}
# By these labels Edgewise, its policy and its fleets find their servers.
OWN_LABELS = (names.SERVER, names.FLEET, names.TYPE)

Name = Annotated[str, Meta(max_length=253)]
Texts = Annotated[dict[Name, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64)]


class NewMetadata(msgspec.Struct, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=63)]
    namespace: Annotated[str, Meta(max_length=63)] = ""
    labels: Texts = {}
    annotations: Texts = {}


class NewObject(msgspec.Struct, kw_only=True, rename="camel"):
    """A manifest, as for `kubectl apply`."""

    metadata: NewMetadata
    spec: dict[str, Any]
    api_version: Annotated[str, Meta(max_length=64)] = ""
    kind: Annotated[str, Meta(max_length=64)] = ""


class ObjectView(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    uid: str
    state: str
    """created or deleting"""


class Objects:
    def __init__(self, games: Games) -> None:
        self._games = games

    async def create(self, kind: type[Object], wanted: NewObject) -> ObjectView:
        self.check_namespace(wanted.metadata.namespace)
        meta = wanted.metadata
        body = {
            "apiVersion": kind.KIND.api_version,
            "kind": kind.KIND.kind,
            "metadata": {
                "name": meta.name,
                "labels": meta.labels,
                "annotations": meta.annotations,
            },
            "spec": wanted.spec,
        }
        path = collection_path(kind.KIND, self._games.namespace)
        try:
            answer = await self._games.client.request("POST", path, body=msgspec.json.encode(body))
        except AlreadyExists:
            raise Refused(f"there is a {kind.KIND.kind} {meta.name} already") from None
        except KubeError as error:
            raise _said(error) from error
        made = msgspec.json.decode(answer)
        return _view(kind, meta.name, made["metadata"]["uid"], "created")

    async def delete(self, kind: type[Object], name: str, *, force: bool = False) -> ObjectView:
        """Ask for its end: its servers go when their games allow it; by force, at once."""
        try:
            found = await self._games.client.get(kind, name, self._games.namespace)
            await self._games.client.delete(
                kind, name, self._games.namespace, uid=found.metadata.uid
            )
            if force:
                await self._kill(found)
        except NotFound:
            raise NotThere(f"there is no {kind.KIND.kind} {name!r}") from None
        except KubeError as error:
            raise _said(error) from error
        return _view(kind, name, found.metadata.uid, "deleting")

    async def _kill(self, found: Object) -> None:
        for server in self._servers_of(found):
            try:
                await self._games.client.patch(
                    Server,
                    server,
                    self._games.namespace,
                    body={"spec": {"operation": str(Operation.KILL)}},
                )
            except NotFound:
                continue

    def _servers_of(self, found: Object) -> list[str]:
        """By their owners: anybody who may write Servers can give one the label of a fleet."""
        if isinstance(found, Server):
            return [found.metadata.name]
        owners = {found.metadata.uid}
        if isinstance(found, GameType):
            owners = {each.metadata.uid for each in self._games.fleets if _owned(each, owners)}
        return [each.metadata.name for each in self._games.servers if _owned(each, owners)]

    async def set_labels(self, server: str, labels: dict[str, str | None]) -> dict[str, str]:
        """Put labels on the pod of a server; None takes one off."""
        for label in labels:
            if label in OWN_LABELS or label.partition("/")[0].endswith("edgewise.dev"):
                raise Unacceptable(f"labels: {label} is Edgewise's own, choose another one")
        try:
            pod = await self._games.client.get(Pod, names.pod_of(server), self._games.namespace)
            if pod.metadata.labels.get(names.PROTECTED) != server:
                raise NotThere(f"the server {server!r} has no pod")
            changed = await self._games.client.patch(
                Pod,
                pod.metadata.name,
                self._games.namespace,
                body={"metadata": {"uid": pod.metadata.uid, "labels": labels}},
            )
        except NotFound:
            raise NotThere(f"the server {server!r} has no pod") from None
        except KubeError as error:
            raise _said(error) from error
        return changed.metadata.labels

    def check_namespace(self, namespace: str) -> None:
        if namespace not in ("", self._games.namespace):
            raise Unacceptable(
                f"metadata.namespace: this server looks after {self._games.namespace} only"
            )


def _owned(obj: Object, by: set[str]) -> bool:
    return any(each.uid in by for each in obj.metadata.owner_references)


def _view(kind: type[Object], name: str, uid: str, state: str) -> ObjectView:
    return ObjectView(kind=kind.KIND.kind, name=name, uid=uid, state=state)


def _said(error: KubeError) -> ServiceError:
    """What the API server thinks of it, for who asked."""
    if isinstance(error, TooManyRequests):
        return ClusterBusy()
    if isinstance(error, (Unreachable, ServerError)) or not isinstance(error, ApiError):
        return GamesUnreachable()
    if error.status in (400, 422):
        return Unacceptable(str(error))
    return Refused(str(error))
