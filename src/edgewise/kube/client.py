"""A typed client of one API server: every verb, for every kind of object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import msgspec

from edgewise.kube import paging
from edgewise.kube.bounds import Bounds
from edgewise.kube.config import Access
from edgewise.kube.discovery import Discovery
from edgewise.kube.documents import Listing, decode, decode_as, encode
from edgewise.kube.errors import TooLarge
from edgewise.kube.objects import Kind, Object
from edgewise.kube.paths import collection_path, object_path
from edgewise.kube.streams import ExecResult, ExecStream, PortStream, exec_params
from edgewise.kube.transport import Transport
from edgewise.kube.unreadable import UnreadableObject
from edgewise.kube.watching import Change, ChangeDecoder, LineSplitter

__all__ = ["FIELD_MANAGER", "Change", "Client", "Listing", "Patch", "PatchBody"]

T = TypeVar("T", bound=Object)
Json = dict[str, Any]
PatchBody = dict[str, Any] | list[Any] | msgspec.Struct

FIELD_MANAGER = "edgewise"
# So many events of a burst are told before others get their turn.
TURN = 16


class Patch(StrEnum):
    """How a patch is to be read."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Client:
    """Talks to one API server. Use it inside `async with`.

    Objects are sent back only by patch or apply, or whole by the program that made them:
    types list only the fields that are used, so a read object is not a complete one.
    """

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str = "edgewise",
        connections: int = 64,
        timeout: float = 30.0,
        bounds: Bounds | None = None,
    ) -> None:
        self.access = access
        self._bounds = bounds or Bounds()
        self._transport = Transport(
            access,
            user_agent=user_agent,
            connections=connections,
            timeout=timeout,
            bounds=self._bounds,
        )
        self._discovery = Discovery(self.request)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        largest: int | None = None,
    ) -> bytes:
        """The raw door: any path, bytes in and bytes out, typed errors."""
        sent = dict(headers) if headers else {}
        if body is not None:
            sent["Content-Type"] = content_type
        return await self._transport.request(
            method, path, params=params, body=body, headers=sent, timeout=timeout, largest=largest
        )

    async def version(self) -> str:
        """The API server's version, such as `v1.34.4`."""
        answer = decode_as(Json, await self.request("GET", "/version"))
        return str(answer.get("gitVersion", ""))

    async def kind_of(self, api_version: str, kind: str) -> Kind:
        """How the server serves a kind; `NotFound` if it does not."""
        return await self._discovery.kind_of(api_version, kind)

    # Reading

    async def get(
        self, kind: type[T], name: str, namespace: str = "", *, subresource: str = ""
    ) -> T:
        content = await self.request(
            "GET",
            object_path(kind.KIND, namespace, name, subresource),
            largest=self._bounds.object,
        )
        return decode(kind, content)

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        resource_version: str = "",
        most: int | None = None,
    ) -> Listing[T]:
        """All objects, of one namespace or of all of them (`None`), fetched page by page.

        Raises `Gone` if the pages took so long that their snapshot is no longer kept,
        `UnreadableObject` if not all of them can be read, and `TooLarge` if they have more bytes
        than `most`.
        """
        whole: Listing[T] = Listing(items=[])
        async for page in self.pages(
            kind,
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            resource_version=resource_version,
        ):
            if page.unreadable:
                raise UnreadableObject(page.unreadable[0])
            whole.items += page.items
            whole.size += page.size
            whole.resource_version = page.resource_version
            if most is not None and whole.size > most:
                where = f" in {namespace}" if namespace else ""
                raise TooLarge(
                    f"all objects of kind {kind.KIND.kind}{where} have more than {most >> 20} MiB"
                )
        return whole

    async def pages(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> AsyncGenerator[Listing[T], None]:
        """The same in pages, all from one snapshot; pages that are too large come in smaller ones.

        Without a `limit` it is one page. What of a page cannot be read stands apart in it.
        """
        path = collection_path(kind.KIND, namespace)
        params = _present(
            labelSelector=labels,
            fieldSelector=fields,
            limit=str(limit) if limit else "",
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        )
        whole = paging.pages(self.request, kind, path, params, self._bounds)
        async with contextlib.aclosing(whole) as pages:
            async for page in pages:
                yield page

    async def watch(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: int = 300,
        idle_timeout: float = 90.0,
    ) -> AsyncGenerator[Change[T], None]:
        """Changes after `resource_version`, until the server ends the watch.

        Bookmarks come about every minute on most clusters, so silence for `idle_timeout`
        seconds makes the connection suspect: `Silent`. A version that is too old raises `Gone`.
        """
        params = _present(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=labels,
            fieldSelector=fields,
            timeoutSeconds=str(timeout_seconds),
        )
        decoded = ChangeDecoder(kind).decode
        lines = LineSplitter(self._bounds.object)
        check = self._transport.check_values if self._bounds.values else None
        async with contextlib.aclosing(
            self._transport.stream(
                collection_path(kind.KIND, namespace), params=params, idle_timeout=idle_timeout
            )
        ) as chunks:
            async for chunk in chunks:
                for number, line in enumerate(lines.feed(chunk), 1):
                    if check is not None:
                        check(line)
                    change = decoded(line)
                    change.size = len(line)
                    yield change
                    if number % TURN == 0:
                        await asyncio.sleep(0)

    # Writing

    async def create(
        self,
        obj: T,
        namespace: str = "",
        *,
        field_manager: str = FIELD_MANAGER,
        dry_run: bool = False,
    ) -> T:
        namespace = namespace or obj.metadata.namespace
        content = await self.request(
            "POST",
            collection_path(obj.KIND, namespace),
            params=_present(fieldManager=field_manager, dryRun="All" if dry_run else ""),
            body=encode(obj),
        )
        return decode(type(obj), content)

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        body: PatchBody,
        type: Patch = Patch.MERGE,
        subresource: str = "",
        field_manager: str = FIELD_MANAGER,
    ) -> T:
        content = await self.request(
            "PATCH",
            object_path(kind.KIND, namespace, name, subresource),
            params={"fieldManager": field_manager},
            body=msgspec.json.encode(body),
            content_type=type,
        )
        return decode(kind, content)

    @overload
    async def apply(
        self,
        obj: T,
        namespace: str = "",
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        subresource: str = "",
    ) -> T: ...

    @overload
    async def apply(
        self,
        obj: Json,
        namespace: str = "",
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        subresource: str = "",
    ) -> Json: ...

    async def apply(
        self,
        obj: T | Json,
        namespace: str = "",
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        subresource: str = "",
    ) -> T | Json:
        """Server-side apply: this manager wants exactly these fields, and takes them by force.

        A dict is an object of any kind, as in a manifest; its kind is looked up at the server.
        """
        if isinstance(obj, Object):
            kind, name, own = obj.KIND, obj.metadata.name, obj.metadata.namespace
            body = encode(obj)
        else:
            kind = await self.kind_of(obj["apiVersion"], obj["kind"])
            name, own = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
            body = msgspec.json.encode(obj)
            own = own or self.access.namespace
        namespace = (namespace or own) if kind.namespaced else ""
        content = await self.request(
            "PATCH",
            object_path(kind, namespace, name, subresource),
            params={"fieldManager": field_manager, "force": "true" if force else "false"},
            body=body,
            content_type="application/apply-patch+yaml",
        )
        if isinstance(obj, Object):
            return decode(type(obj), content)
        return decode_as(Json, content)

    async def replace(self, obj: T, *, subresource: str = "") -> T:
        """PUT. The resource version in the object guards against overwriting somebody."""
        meta = obj.metadata
        content = await self.request(
            "PUT",
            object_path(obj.KIND, meta.namespace, meta.name, subresource),
            params={"fieldManager": FIELD_MANAGER},
            body=encode(obj),
        )
        return decode(type(obj), content)

    async def delete(
        self,
        kind: type[Object],
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """`uid` and `resource_version` refuse (with `Conflict`) to delete a successor."""
        options = _present(
            gracePeriodSeconds=grace_seconds,
            propagationPolicy=propagation,
            preconditions=_present(uid=uid, resourceVersion=resource_version) or None,
        )
        await self.request(
            "DELETE",
            object_path(kind.KIND, namespace, name),
            body=msgspec.json.encode(options) if options else None,
        )

    async def evict(
        self,
        name: str,
        namespace: str,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete a pod if its disruption budget allows it, else `TooManyRequests`. With `uid`
        never a successor of the same name (`Conflict`)."""
        eviction: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        options = _present(
            gracePeriodSeconds=grace_seconds, preconditions=_present(uid=uid) or None
        )
        if options:
            eviction["deleteOptions"] = options
        await self.request(
            "POST", _pod_path(namespace, name, "eviction"), body=msgspec.json.encode(eviction)
        )

    # Beside a running pod

    async def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        tail: int | None = None,
        since_seconds: int | None = None,
        previous: bool = False,
    ) -> str:
        content = await self.request(
            "GET",
            _pod_path(namespace, name, "log"),
            params=_log_params(container, tail, since_seconds, previous),
            largest=self._bounds.whole,
        )
        return content.decode(errors="replace")

    async def follow_logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        tail: int | None = None,
        since_seconds: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """Line by line until the container ends. A container may be silent for hours."""
        params = _log_params(container, tail, since_seconds, previous=False)
        lines = LineSplitter(cut=True)
        async with contextlib.aclosing(
            self._transport.stream(
                _pod_path(namespace, name, "log"), params=params | {"follow": "true"}
            )
        ) as chunks:
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    yield line.decode(errors="replace")
        for line in lines.feed(b"\n"):
            if line:
                yield line.decode(errors="replace")

    async def exec(
        self,
        name: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Run a command in a container, to its end."""
        async with self.exec_stream(
            name, namespace, command, container=container, stdin=stdin is not None
        ) as stream:
            return await stream.communicate(stdin)

    @contextlib.asynccontextmanager
    async def exec_stream(
        self,
        name: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> AsyncIterator[ExecStream]:
        """Run a command and talk with it meanwhile."""
        async with self._transport.websocket(
            _pod_path(namespace, name, "exec"),
            params=exec_params(command, container=container, stdin=stdin, tty=tty),
            protocols=ExecStream.PROTOCOLS,
        ) as socket:
            yield ExecStream(socket)

    @contextlib.asynccontextmanager
    async def port_forward(self, name: str, namespace: str, port: int) -> AsyncIterator[PortStream]:
        """One TCP connection to a port of a pod."""
        async with self._transport.websocket(
            _pod_path(namespace, name, "portforward"),
            params=[("ports", str(port))],
            protocols=PortStream.PROTOCOLS,
        ) as socket:
            yield PortStream(socket)


def _pod_path(namespace: str, name: str, subresource: str) -> str:
    return object_path(Kind("", "v1", "Pod", "pods"), namespace, name, subresource)


def _present(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value not in (None, "")}


def _log_params(
    container: str, tail: int | None, since_seconds: int | None, previous: bool
) -> dict[str, str]:
    return _present(
        container=container,
        tailLines="" if tail is None else str(tail),
        sinceSeconds="" if since_seconds is None else str(since_seconds),
        previous="true" if previous else "",
    )
