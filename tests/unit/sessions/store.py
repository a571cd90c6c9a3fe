"""The API server's rules in memory, so that thousands of histories can be played.

Versions, conflicts, names that are taken, preconditions, status as a part of its own, graceful
deletion: as the real one does it. (The same scenarios run against the real one elsewhere.)
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from edgewise.kube.client import Listing, Patch
from edgewise.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from edgewise.kube.objects import Key, Kind, Object
from edgewise.runtime.merge_patch import difference

Raw = dict[str, Any]
# Kinds whose status is written by itself.
WITH_STATUS = ("Session", "SessionTemplate", "Pod", "Node", "ResourceQuota")
# Whoever writes, what kind, which verb, its name: may raise to cut the writer off.
Watcher = Callable[[str, str, Key, bool], None]


def typed(raw: Raw, kind: type[Any]) -> Any:
    """As it comes over the wire: some types keep parts of it as text."""
    return msgspec.json.decode(msgspec.json.encode(raw), type=kind)


class Event(msgspec.Struct):
    version: int
    kind: Kind
    deleted: bool
    raw: Raw


class Store:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.objects: dict[Kind, dict[Key, Raw]] = {}
        self.log: list[Event] = []
        self.version = 0
        self._uids = itertools.count(1)
        # Asked before anything is created; raises what the API server would answer.
        self.admit: Callable[[Kind, Raw], None] = lambda *_: None

    # Reading ------------------------------------------------------------------------

    def get(self, kind: type[Object], key: Key) -> Raw:
        try:
            return self.objects[kind.KIND][key]
        except KeyError:
            raise NotFound(404, "NotFound", f"{kind.KIND.kind} {key} not found") from None

    def all(self, kind: type[Any]) -> list[Any]:
        return [typed(raw, kind) for raw in self.objects.get(kind.KIND, {}).values()]

    # Writing ------------------------------------------------------------------------

    def create(self, kind: Kind, raw: Raw) -> Raw:
        raw = copy.deepcopy(raw)
        meta = raw.setdefault("metadata", {})
        key = Key(meta.get("namespace", ""), meta["name"])
        if key in self.objects.setdefault(kind, {}):
            raise AlreadyExists(409, "AlreadyExists", f"{kind.kind} {key} already exists")
        self.admit(kind, raw)
        if kind.kind in WITH_STATUS:
            raw.pop("status", None)
        meta["uid"] = f"uid-{next(self._uids):06d}"
        meta["generation"] = 1
        meta["creationTimestamp"] = datetime.fromtimestamp(self.clock(), UTC).isoformat()
        return self._put(kind, key, raw)

    def patch(self, kind: Kind, key: Key, body: Any, subresource: str = "") -> Raw:
        old = self.objects.get(kind, {}).get(key)
        if old is None:
            raise NotFound(404, "NotFound", f"{kind.kind} {key} not found")
        if isinstance(body, list):
            body = self._from_json_patch(old, body)
        given = body.get("metadata", {})
        for field, word in (("resourceVersion", "version"), ("uid", "uid")):
            wanted = given.get(field)
            if wanted and wanted != old["metadata"][field]:
                raise Conflict(409, "Conflict", f"{kind.kind} {key} has another {word}")
        new = merge(old, body)
        if subresource == "status":
            new = {**copy.deepcopy(old), "status": new.get("status", {})}
        elif kind.kind in WITH_STATUS:
            new["status"] = copy.deepcopy(old.get("status", {}))
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        if self._finished(new):
            return self._remove(kind, key)
        return self._put(kind, key, new)

    def _from_json_patch(self, old: Raw, operations: list[Raw]) -> Raw:
        body: Raw = {}
        for operation in operations:
            names = operation["path"].strip("/").split("/")
            if operation["op"] == "test":
                value: Any = old
                for name in names:
                    value = (value or {}).get(name)
                if (value or None) != (operation["value"] or None):
                    raise Invalid(422, "Invalid", f"{operation['path']} is another")
                continue
            inner = body
            for name in names[:-1]:
                inner = inner.setdefault(name, {})
            inner[names[-1]] = operation["value"]
        return body

    def delete(self, kind: Kind, key: Key, options: Raw) -> Raw:
        old = self.objects.get(kind, {}).get(key)
        if old is None:
            raise NotFound(404, "NotFound", f"{kind.kind} {key} not found")
        for field, wanted in (options.get("preconditions") or {}).items():
            if wanted != old["metadata"][field]:
                raise Conflict(409, "Conflict", f"{kind.kind} {key} has another {field}")
        graceful = kind.kind == "Pod" and old.get("spec", {}).get("nodeName")
        if graceful and options.get("gracePeriodSeconds") == 0:
            graceful = False
        if not graceful and not old["metadata"].get("finalizers"):
            return self._remove(kind, key)
        if old["metadata"].get("deletionTimestamp"):
            return old
        new = copy.deepcopy(old)
        new["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        return self._put(kind, key, new)

    def finish(self, kind: Kind, key: Key) -> None:
        """What the kubelet does at the end of a pod."""
        self._remove(kind, key)

    def _finished(self, raw: Raw) -> bool:
        meta = raw["metadata"]
        return bool(meta.get("deletionTimestamp")) and not meta.get("finalizers")

    def _put(self, kind: Kind, key: Key, raw: Raw) -> Raw:
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.objects[kind][key] = raw
        self.log.append(Event(self.version, kind, False, copy.deepcopy(raw)))
        return raw

    def _remove(self, kind: Kind, key: Key) -> Raw:
        raw = copy.deepcopy(self.objects[kind].pop(key))
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.log.append(Event(self.version, kind, True, raw))
        return raw


def merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merge(new.get(name), value)
    return {name: copy.deepcopy(value) for name, value in new.items()}


class StoreClient:
    """The verbs of `kube.Client` that the runtime uses, against a store."""

    def __init__(self, store: Store, watcher: Watcher | None = None) -> None:
        self.store = store
        self.watcher = watcher or (lambda *_: None)
        self.writes: list[tuple[str, str, Key]] = []
        # How often others may act before a request of this client arrives.
        self.delay: Callable[[], int] = lambda: 0
        # A request of this verb and kind waits until it is let through.
        self.raw: tuple[str, str] | None = None
        self.let_through = asyncio.Event()

    async def _travel(self, verb: str, kind: Kind) -> None:
        for _ in range(self.delay()):
            await asyncio.sleep(0)
        if self.raw == (verb, kind.kind):
            await self.let_through.wait()

    def _cut(self, verb: str, kind: Kind, key: Key, done: bool) -> None:
        if done:
            self.writes.append((verb, kind.kind, key))
        self.watcher(verb, kind.kind, key, done)

    async def get(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        await self._travel("get", kind.KIND)
        self.watcher("get", kind.KIND.kind, Key(namespace, name), False)
        return typed(self.store.get(kind, Key(namespace, name)), kind)

    async def list(self, kind: type[Any], namespace: str | None = None, **_: Any) -> Any:
        items = [
            each
            for each in self.store.all(kind)
            if namespace is None or each.metadata.namespace == namespace
        ]
        return Listing(items, str(self.store.version))

    async def create(self, obj: Any, **_: Any) -> Any:
        kind = obj.KIND
        await self._travel("create", kind)
        self._cut("create", kind, obj.key, False)
        raw = self.store.create(kind, msgspec.to_builtins(obj))
        self._cut("create", kind, obj.key, True)
        return typed(raw, type(obj))

    async def patch(
        self,
        kind: type[Any],
        name: str,
        namespace: str = "",
        *,
        body: Any,
        type: Patch = Patch.MERGE,
        subresource: str = "",
    ) -> Any:
        key = Key(namespace, name)
        await self._travel("patch", kind.KIND)
        self._cut("patch", kind.KIND, key, False)
        raw = self.store.patch(kind.KIND, key, body, subresource)
        self._cut("patch", kind.KIND, key, True)
        return typed(raw, kind)

    async def apply(self, obj: Any, **_: Any) -> Any:
        kind, key = obj.KIND, obj.key
        await self._travel("apply", kind)
        self._cut("apply", kind, key, False)
        wanted = msgspec.to_builtins(obj)
        old = self.store.objects.get(kind, {}).get(key)
        if old is None:
            raw = self.store.create(kind, wanted)
        else:
            wanted["metadata"] = merge(old["metadata"], wanted["metadata"])
            body = difference(old, {**wanted, "status": old.get("status", {})})
            raw = self.store.patch(kind, key, body)
        self._cut("apply", kind, key, True)
        return typed(raw, type(obj))

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        assert method == "DELETE"
        kind, key = self._parse(path)
        await self._travel("delete", kind)
        self._cut("delete", kind, key, False)
        raw = self.store.delete(kind, key, msgspec.json.decode(body or b"{}"))
        self._cut("delete", kind, key, True)
        return msgspec.json.encode(raw)

    def _parse(self, path: str) -> tuple[Kind, Key]:
        parts = path.strip("/").split("/")
        name, plural = parts[-1], parts[-2]
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        for kind, objects in self.store.objects.items():
            if kind.plural == plural and Key(namespace, name) in objects:
                return kind, Key(namespace, name)
        raise NotFound(404, "NotFound", f"{path} not found")
