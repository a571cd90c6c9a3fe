"""The objects of one kind as the API server last showed them, with indexes.

Two hands write here. The *stream* (list and watch) brings everything, in order, a little
late. *Own writes* are put in as soon as the API server has answered them, ahead of the
stream, so that whoever wrote something reads it back at once. The rules below keep the
stream from undoing such a write while it catches up.

Objects are shared by all readers and never copied: treat them as frozen.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.selection import EVERYTHING, Selection

T = TypeVar("T", bound=Object)

# What an index function may answer: one value, several, or none.
IndexValues = str | Iterable[Hashable] | None
IndexFunction = Callable[[T], IndexValues]
# Called with (before, after, whether it came with a whole list).
Listener = Callable[[T | None, T | None, bool], None]

MOST_INDEXES = 32
FORGET_BURIED_AFTER = 600.0

_log = logging.getLogger(__name__)


class Buried(msgspec.Struct, frozen=True):
    """Events up to this revision are the past, and are ignored.

    Said of an object (by its uid), and of a name (by its key): whatever had the name before
    an object that we know to be gone, was gone before it.
    """

    revision: float
    when: float


class Cache(Generic[T]):
    """Objects by key, kept by a reflector; read it, index it, subscribe to it."""

    def __init__(
        self,
        kind: type[T],
        *,
        selection: Selection = EVERYTHING,
        trim: Callable[[T], T] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.selection = selection
        self.name = f"{kind.KIND.plural}{selection}"  # for metrics and messages
        self.revision = 0  # everything up to here has been seen
        self.synced = False
        self._trim = trim
        self._monotonic = monotonic
        self._matches = selection.matcher()
        # Elsewhere DELETED may mean that it left the selection, and may come back.
        self._keeps_all = not selection.labels and not selection.fields
        self._objects: dict[Key, T] = {}
        self._buried: dict[str | Key, Buried] = {}
        self._void = 0  # revisions above ours and up to here were taken back (etcd restored)
        self._indexes: dict[IndexFunction[T], dict[Hashable, dict[Key, T]]] = {}
        self._listeners: list[Listener[T]] = []

    # Reading ------------------------------------------------------------------------

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def find(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get(Key(namespace, name))

    def all(self, namespace: str | None = None) -> list[T]:
        """All objects, or those of one namespace."""
        if namespace is None:
            return list(self._objects.values())
        return self.by(_namespace, namespace)

    def by(self, index: IndexFunction[T], value: Hashable) -> list[T]:
        """The objects for which `index` answers `value`.

        The index is made at its first use and kept up to date from then on, so `index`
        must be a function that is defined once (not a lambda at the place of use).
        """
        entries = self._indexes.get(index)
        if entries is None:
            entries = self._build(index)
        return list(entries.get(value, {}).values())

    def owned_by(self, owner: Object) -> list[T]:
        """The objects whose controlling owner is `owner`."""
        return self.by(controlling_owner, owner.metadata.uid)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener` at each change, and now for all that is here already."""
        self._listeners.append(listener)
        for obj in list(self._objects.values()):
            self._tell(listener, None, obj, bulk=True)
        return lambda: self._listeners.remove(listener)

    # The stream ---------------------------------------------------------------------

    def replace(self, items: Iterable[T], revision: str, *, begun: float = -math.inf) -> None:
        """Take over a complete list; what it lacks was deleted while nobody looked.

        `begun` is when the list was asked for. It shows what was true then or later.
        """
        at = number(revision)
        # A list older than what we know comes from an API server that was set back
        # (etcd restored): then nothing that we hold from "later" is true any more.
        set_back = at < self.revision
        if set_back:
            _log.warning(
                "the API server shows %s as of %d, but had shown %d: its state was set back",
                self.name,
                at,
                self.revision,
            )
            self._buried.clear()
            held = (number(obj.metadata.resource_version) for obj in self._objects.values())
            self._void = max(self._void, self.revision, *held, 0)
        self.revision, self.synced = at, True

        listed: dict[Key, T] = {}
        for obj in items:
            for what in (obj.metadata.uid, obj.key):
                buried = self._buried.get(what)
                if buried is not None and buried.when < begun:
                    del self._buried[what]  # we took it for deleted, but it is there
            if not self._is_past(obj):
                listed[obj.key] = obj
        for key, old in list(self._objects.items()):
            ahead = number(old.metadata.resource_version) > at and not set_back
            if key not in listed and not ahead:
                self._set(key, old, None, bulk=True)
        for key, new in listed.items():
            current = self._objects.get(key)
            if current is None:
                self._set(key, None, self._trimmed(new), bulk=True)
            elif current.metadata.resource_version != new.metadata.resource_version:
                if not set_back and _newer(current, new):
                    continue
                self._set(key, current, self._trimmed(new), bulk=True)

    def apply(self, obj: T, *, deleted: bool = False) -> None:
        """Take over one event of the watch."""
        metadata = obj.metadata
        at = number(metadata.resource_version)
        if at < self.revision:
            return  # events come in order: this one is a repetition
        self.revision = at
        if self._is_past(obj, deleted=deleted):
            return
        key = metadata.key
        current = self._objects.get(key)
        if current is None:
            if not deleted:
                self._set(key, None, self._trimmed(obj))
        elif number(current.metadata.resource_version) > at:
            return  # our own later write is here already
        elif deleted:
            self._set(key, current, None)
        elif current.metadata.resource_version != metadata.resource_version:
            self._set(key, current, self._trimmed(obj))

    def progress(self, revision: str) -> None:
        """A bookmark: the stream has shown everything up to `revision`."""
        self.revision = max(self.revision, number(revision))

    # Own writes ---------------------------------------------------------------------

    def write_through(self, obj: T) -> None:
        """Put in what the API server answered to a write or a read of our own."""
        at = number(obj.metadata.resource_version)
        if not self.synced or self._is_past(obj):
            return
        key = obj.key
        current = self._objects.get(key)
        if current is not None and not _newer(obj, current):
            return
        same = current is not None and current.metadata.uid == obj.metadata.uid
        if at <= self.revision and not same:
            return  # the stream has shown this, and that it is gone, already
        if self._matches(obj):
            self._set(key, current, self._trimmed(obj))
        else:
            # With this write it left the selection; what the stream still shows is old.
            self._bury(obj.metadata.uid, at)
            self._bury(key, at)
            if current is not None:
                self._set(key, current, None)

    def bury(self, obj: Object) -> None:
        """Take out an object that we know to be gone; what the stream still says is old."""
        key, uid = obj.key, obj.metadata.uid
        if not self.synced or not uid:
            return
        known = number(obj.metadata.resource_version)
        if self.revision < known <= self._void:
            known = 0  # from a time that was taken back: nothing follows for others of the name
        current = self._objects.get(key)
        if current is not None:
            shown = number(current.metadata.resource_version)
            if current.metadata.uid == uid:
                known = max(known, shown)
            elif shown >= known:
                current = None  # a successor, which stays
        self._bury(uid, math.inf)
        self._bury(key, known - 1)
        if current is not None:
            self._set(key, current, None)

    # Inside -------------------------------------------------------------------------

    def _bury(self, what: str | Key, revision: float) -> None:
        if revision <= 0:
            return  # not a number that grows: nothing can be told to be from before
        now = self._monotonic()
        for known, buried in list(self._buried.items()):
            if now - buried.when < FORGET_BURIED_AFTER:
                break
            del self._buried[known]
        before = self._buried.pop(what, None)
        self._buried[what] = Buried(max(revision, before.revision if before else 0), now)

    def _is_past(self, obj: T, *, deleted: bool = False) -> bool:
        if not self._buried:
            return False
        past = False
        for what in (obj.metadata.uid, obj.key):
            buried = self._buried.get(what)
            if buried is None:
                continue
            if number(obj.metadata.resource_version) <= buried.revision:
                past = True
                if deleted and buried.revision == math.inf and self._keeps_all:
                    del self._buried[what]
            else:
                del self._buried[what]
        return past

    def _trimmed(self, obj: T) -> T:
        return self._trim(obj) if self._trim else obj

    def _set(self, key: Key, old: T | None, new: T | None, *, bulk: bool = False) -> None:
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        for index, entries in self._indexes.items():
            _reindex(index, entries, key, old, new)
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            # Deleted and made again under the same name while nobody looked.
            self._tell_all(old, None, bulk=bulk)
            old = None
        self._tell_all(old, new, bulk=bulk)

    def _tell_all(self, old: T | None, new: T | None, *, bulk: bool) -> None:
        for listener in self._listeners:
            self._tell(listener, old, new, bulk=bulk)

    def _tell(self, listener: Listener[T], old: T | None, new: T | None, *, bulk: bool) -> None:
        try:
            listener(old, new, bulk)
        except Exception:
            # One broken listener must not stop the stream for all the others.
            _log.exception("a listener of the %s cache failed", self.kind.KIND.kind)

    def _build(self, index: IndexFunction[T]) -> dict[Hashable, dict[Key, T]]:
        if len(self._indexes) >= MOST_INDEXES:
            raise RuntimeError(
                f"the {self.kind.KIND.kind} cache has {MOST_INDEXES} indexes already; "
                "define each index function once, at the top of a module"
            )
        entries: dict[Hashable, dict[Key, T]] = {}
        for key, obj in self._objects.items():
            _reindex(index, entries, key, None, obj)
        self._indexes[index] = entries
        return entries


def _reindex(
    index: IndexFunction[T],
    entries: dict[Hashable, dict[Key, T]],
    key: Key,
    old: T | None,
    new: T | None,
) -> None:
    before = _values(index, old)
    after = _values(index, new)
    for value in before:
        if value not in after and (bucket := entries.get(value)) is not None:
            bucket.pop(key, None)
            if not bucket:
                del entries[value]
    if new is not None:
        for value in after:
            entries.setdefault(value, {})[key] = new


def _values(index: IndexFunction[T], obj: T | None) -> tuple[Hashable, ...]:
    if obj is None:
        return ()
    try:
        found = index(obj)
    except Exception:
        # Like a listener, a broken index must not stop the stream for the others.
        _log.exception("the index %s failed on %s", getattr(index, "__name__", index), obj.key)
        return ()
    if found is None:
        return ()
    return (found,) if isinstance(found, str) else tuple(found)


def _newer(one: Object, other: Object) -> bool:
    return number(one.metadata.resource_version) > number(other.metadata.resource_version)


def controlling_owner(obj: Object) -> str | None:
    """The uid of the owner that controls an object."""
    for owner in obj.metadata.owner_references:
        if owner.controller:
            return owner.uid
    return None


def _namespace(obj: Any) -> str:
    namespace: str = obj.metadata.namespace
    return namespace


def number(revision: str) -> int:
    """A resource version as a number, and 0 where an API server uses something else.

    etcd's are numbers that grow. With others nothing is ever taken to be late or early,
    and own writes are seen only when the stream brings them.
    """
    return int(revision) if revision.isdecimal() else 0
