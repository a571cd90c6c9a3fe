"""The API server as a reconcile uses it: whoever writes something reads it back at once.

The answer to every write goes into the shared caches before the write returns. Where the
outcome is in doubt (no answer, a conflict, a name that is taken), the objects concerned are
read from the API server before the same key is reconciled again. So a reconcile never acts
on a cache that is older than its own last write, and nobody ever sleeps until it is fresh.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from edgewise.kube.client import Client, Listing, Patch, PatchBody
from edgewise.kube.connections import asked_before_sending
from edgewise.kube.documents import decode, decode_as
from edgewise.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Unreachable,
)
from edgewise.kube.objects import Key, Kind, Object
from edgewise.kube.paths import object_path
from edgewise.kube.unreadable import UnreadableObject
from edgewise.runtime.caching.cache import number
from edgewise.runtime.caching.reflector import PAGE
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.made_names import MadeNames
from edgewise.runtime.merge_patch import difference
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.reconciling import CURRENT, Reconciling

T = TypeVar("T", bound=Object)
Answer = TypeVar("Answer")

# After these the cache may be older than what the API server knows.
_DOUBTFUL = (Conflict, AlreadyExists, NotFound, Unreachable, ServerError)
# After these nobody knows whether a write was carried out, or will be.
_UNANSWERED = (Unreachable, ServerError, asyncio.CancelledError)
# The other subresources answer with a kind of their own.
_WHOLE_OBJECT = ("", "status")


class _Header(msgspec.Struct):
    kind: str = ""


class Api:
    """Reads and writes of one manager's controllers."""

    def __init__(
        self,
        client: Client,
        caches: SharedCaches,
        *,
        permit: Callable[[], None] = lambda: None,
        random: Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
    ) -> None:
        """`permit` is asked before every write, and raises when we may not act (any more)."""
        self._client = client
        self._caches = caches
        self._permit = permit
        self._metrics = metrics or Metrics()
        self._names = MadeNames(random)
        self._doubts: dict[Reconciling, set[tuple[Kind, Key]]] = {}
        self._monotonic = monotonic
        self._last_unanswered = -math.inf

    # Reading ------------------------------------------------------------------------

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """A live read. On the hot path, read the cache instead."""
        obj = await self._call("get", kind, lambda: self._client.get(kind, name, namespace))
        self._take_in(obj)
        return obj

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        most: int | None = None,
    ) -> Listing[T]:
        """A live list, for kinds that are not worth a cache; of at most so many bytes."""
        return await self._call(
            "list",
            kind,
            lambda: self._client.list(kind, namespace, labels=labels, fields=fields, most=most),
        )

    async def pages(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        fields: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[Sequence[T], None]:
        """A live list, of which no more than a page is held at once."""
        name = kind.KIND.kind
        whole = self._client.pages(kind, namespace, fields=fields, limit=limit)
        try:
            async with contextlib.aclosing(whole) as pages:
                async for page in pages:
                    if page.unreadable:
                        raise UnreadableObject(page.unreadable[0])
                    self._metrics.request("list", name, 200)
                    yield page.items
        except KubeError as error:
            self._metrics.request("list", name, error.status if isinstance(error, ApiError) else 0)
            raise

    # Writing ------------------------------------------------------------------------

    async def create(self, obj: T) -> T:
        """With `generate_name` a name is made, and no second one if the answer is lost.

        A reconcile that makes several objects of a kind gives each of them a prefix of its own:
        by that the next attempt knows which one is in doubt.
        """
        if not obj.metadata.name and obj.metadata.generate_name:
            return await self._create_with_made_name(obj)
        return await self._write("create", type(obj), obj.key, lambda: self._client.create(obj))

    async def _create_with_made_name(self, obj: T) -> T:
        reconciling, meta = CURRENT.get(), obj.metadata
        what = (obj.KIND.kind, meta.namespace, meta.generate_name)
        name, used_before = self._names.make(reconciling, what)
        named = replace(obj, metadata=replace(meta, name=name))
        try:
            return await self._write(
                "create", type(obj), named.key, lambda: self._client.create(named)
            )
        except AlreadyExists:
            if not used_before:
                raise
            # Our own earlier attempt, whose answer was lost.
            try:
                return await self.get(type(obj), name, meta.namespace)
            except BaseException:
                self._names.doubt(reconciling, what, name)
                raise
        except BaseException as error:
            # Whatever this attempt was told, an earlier one may still be carried out.
            if used_before or isinstance(error, _UNANSWERED):
                self._names.doubt(reconciling, what, name)
            raise

    async def patch(
        self,
        obj: T,
        body: PatchBody,
        *,
        type: Patch = Patch.MERGE,
        subresource: str = "",
    ) -> T:
        """Change what `body` names. A merge patch never hits a successor of the same name.

        Except for a status of a custom kind, where the API server does not look at the uid:
        there the successor's own reconcile puts it right.
        """
        meta = obj.metadata
        if type is Patch.MERGE and isinstance(body, dict) and meta.uid:
            body = {**body, "metadata": {**body.get("metadata", {}), "uid": meta.uid}}
        try:
            return await self._write(
                "patch",
                obj.__class__,
                obj.key,
                lambda: self._client.patch(
                    obj.__class__,
                    meta.name,
                    meta.namespace,
                    body=body,
                    type=type,
                    subresource=subresource,
                ),
                subresource,
            )
        except Invalid as error:
            # Custom kinds refuse a uid that is not theirs in these words.
            if not any(cause.get("field") == "metadata.uid" for cause in _causes(error)):
                raise
            self._doubt(obj.KIND, obj.key)
            raise Conflict(
                409, "Conflict", f"{obj.KIND.kind} {obj.key} was deleted and made anew"
            ) from error

    async def apply(self, obj: T, *, field_manager: str = "edgewise", subresource: str = "") -> T:
        """Server-side apply of the fields that `obj` sets."""
        return await self._write(
            "apply",
            type(obj),
            obj.key,
            lambda: self._client.apply(obj, field_manager=field_manager, subresource=subresource),
            subresource,
        )

    async def replace(self, obj: T, *, subresource: str = "") -> T:
        """PUT; only for objects whose type knows every field."""
        return await self._write(
            "replace",
            type(obj),
            obj.key,
            lambda: self._client.replace(obj, subresource=subresource),
            subresource,
        )

    async def delete(
        self,
        obj: Object,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        unchanged: bool = False,
    ) -> bool:
        """Delete exactly this object, never a successor; False if it was gone already.

        With `unchanged` only if nobody has written it since `obj` was read, else Conflict.
        """
        kind, key, uid = type(obj), obj.key, obj.metadata.uid
        conditions = {"uid": uid} if uid else {}
        if unchanged:
            conditions["resourceVersion"] = obj.metadata.resource_version
        options: dict[str, Any] = {"preconditions": conditions}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        path = object_path(kind.KIND, key.namespace, key.name)
        try:
            content = await self._call(
                "delete",
                kind,
                lambda: self._client.request("DELETE", path, body=msgspec.json.encode(options)),
                key,
            )
        except NotFound:
            self._bury(obj)
            return False
        except Conflict:
            # It changed, at the very moment even if that is allowed, or a successor is there.
            if unchanged or await self._is_there(obj):
                raise
            return False
        if decode_as(_Header, content).kind == "Status":
            self._bury(obj)
            return True
        left = decode(kind, content)
        if not left.metadata.deleting:
            self._bury(left)
        elif left.metadata.resource_version == obj.metadata.resource_version:
            # It was on its way out before: gone now, or still held by a finalizer?
            await self._read_again(kind.KIND, key)
        else:
            self._take_in(left)
        return True

    async def _is_there(self, obj: Object) -> bool:
        try:
            now = await self.get(type(obj), obj.metadata.name, obj.metadata.namespace)
        except NotFound:
            now = None
        if now is not None and now.metadata.uid == obj.metadata.uid:
            return True
        self._bury(obj)
        return False

    async def evict(self, pod: Object, *, grace_seconds: int | None = None) -> None:
        """Delete exactly this pod if its disruption budget allows, else TooManyRequests."""
        key, uid = pod.key, pod.metadata.uid or None
        await self._call(
            "evict",
            type(pod),
            lambda: self._client.evict(
                key.name, key.namespace, grace_seconds=grace_seconds, uid=uid
            ),
            key,
        )
        await self._read_again(pod.KIND, key)

    async def write_status(self, obj: T, status: msgspec.Struct) -> T:
        """Make the status what is given: one patch with what differs, or no request at all."""
        latest = self._latest(obj)
        before = getattr(latest, "status", None)
        patch = difference(
            {} if before is None else msgspec.to_builtins(before), msgspec.to_builtins(status)
        )
        if not patch:
            return latest
        return await self.patch(latest, {"status": patch}, subresource="status")

    async def add_finalizer(self, obj: T, finalizer: str) -> T:
        """Keep `obj` from going before we have cleaned up."""
        latest = self._latest(obj)
        present = latest.metadata.finalizers
        if finalizer in present:
            return latest
        return await self._set_finalizers(latest, [*present, finalizer])

    async def remove_finalizer(self, obj: T, finalizer: str) -> T | None:
        """Let `obj` go; None if it has gone already."""
        latest = self._latest(obj)
        left = [name for name in latest.metadata.finalizers if name != finalizer]
        if len(left) == len(latest.metadata.finalizers):
            return latest
        try:
            return await self._set_finalizers(latest, left)
        except NotFound:
            self._bury(latest)
            return None

    async def _set_finalizers(self, obj: T, finalizers: Sequence[str]) -> T:
        # The list is tested rather than the resource version, which changes far more often.
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid},
            {
                "op": "test",
                "path": "/metadata/finalizers",
                "value": obj.metadata.finalizers or None,
            },
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]
        try:
            return await self.patch(obj, patch, type=Patch.JSON)
        except Invalid as error:
            if _causes(error):
                raise
            self._doubt(obj.KIND, obj.key)
            raise Conflict(
                409, "Conflict", f"the finalizers of {obj.key} changed meanwhile"
            ) from error

    @property
    def quiet_for(self) -> float:
        """Seconds since a write of ours got no answer, and may still be carried out."""
        return self._monotonic() - self._last_unanswered

    # Doubts -------------------------------------------------------------------------

    async def settle(self, reconciling: Reconciling) -> None:
        """Before a key is reconciled again: read what its last reconcile left in doubt."""
        doubts = self._doubts.get(reconciling)
        while doubts:
            kind, key = next(iter(doubts))
            if await self._read_again(kind, key):
                self._names.seen(reconciling, key.name)
            doubts.discard((kind, key))
        self._doubts.pop(reconciling, None)

    def settled(self, reconciling: Reconciling) -> None:
        """A key was reconciled without an error."""
        self._names.forget(reconciling)

    def _doubt(self, kind: Kind, key: Key) -> None:
        reconciling = CURRENT.get()
        if reconciling is not None:
            self._doubts.setdefault(reconciling, set()).add((kind, key))

    async def _read_again(self, kind: Kind, key: Key) -> bool:
        """Bring the caches up to date about one object; whether it is there."""
        found = False
        # Noted before the read: what is in a cache afterwards may be a successor.
        seen = [(cache, cache.get(key)) for cache in self._caches.holding(kind)]
        for cache, before in seen:
            try:
                obj = await self._call(
                    "get",
                    cache.kind,
                    partial(self._client.get, cache.kind, key.name, key.namespace),
                )
            except NotFound:
                if before is not None:
                    cache.bury(before)
            else:
                cache.write_through(obj)
                found = True
        return found

    # Inside -------------------------------------------------------------------------

    async def _write(
        self,
        verb: str,
        kind: type[T],
        key: Key,
        call: Callable[[], Awaitable[T]],
        subresource: str = "",
    ) -> T:
        answer = await self._call(verb, kind, call, key)
        if subresource in _WHOLE_OBJECT:
            self._take_in(answer)
        else:
            await self._read_again(kind.KIND, key)
        return answer

    async def _call(
        self,
        verb: str,
        kind: type[Object],
        call: Callable[[], Awaitable[Answer]],
        writes: Key | None = None,
    ) -> Answer:
        name = kind.KIND.kind
        try:
            if writes is None:
                answer = await call()
            else:
                self._permit()
                with asked_before_sending(self._permit):
                    answer = await call()
        except KubeError as error:
            self._metrics.request(verb, name, error.status if isinstance(error, ApiError) else 0)
            if writes is not None and isinstance(error, _DOUBTFUL):
                self._doubt(kind.KIND, writes)
                self._note_unanswered(error)
            raise
        except asyncio.CancelledError as error:
            # The request may be on its way, and may be carried out.
            if writes is not None:
                self._doubt(kind.KIND, writes)
                self._note_unanswered(error)
            raise
        self._metrics.request(verb, name, 200)
        return answer

    def _note_unanswered(self, error: BaseException) -> None:
        if isinstance(error, _UNANSWERED):
            self._last_unanswered = self._monotonic()

    def _take_in(self, obj: Object) -> None:
        if obj.metadata.removed:
            # A pod that had not begun, say, or one whose last finalizer this write took away.
            self._bury(obj)
            return
        for cache in self._caches.holding(obj.KIND):
            if cache.kind is type(obj):
                cache.write_through(obj)
            else:
                self._doubt(obj.KIND, obj.key)

    def _bury(self, obj: Object) -> None:
        for cache in self._caches.holding(obj.KIND):
            cache.bury(obj)

    def _latest(self, obj: T) -> T:
        """The newest version of this object that we know: `obj`, or the one in a cache."""
        latest = obj
        for cache in self._caches.holding(obj.KIND):
            cached = cache.get(obj.key) if cache.kind is type(obj) else None
            if cached is not None and cached.metadata.uid == obj.metadata.uid:
                latest = max(latest, cached, key=_revision)
        return latest


def _causes(error: ApiError) -> list[dict[str, Any]]:
    return error.details.get("causes") or []


def _revision(obj: Object) -> int:
    return number(obj.metadata.resource_version)
