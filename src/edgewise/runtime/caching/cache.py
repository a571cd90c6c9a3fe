"""The objects of one kind as the API server last showed them, with indexes.

Two hands write here. The *stream* (list and watch) brings everything, in order, a little
late. *Own writes* are put in as soon as the API server has answered them, ahead of the
stream, so that whoever wrote something reads it back at once. The rules below keep the
stream from undoing such a write while it catches up.

Objects are shared by all readers and never copied: treat them as frozen.

One that does not fit its type is *left out*. It is not deleted: if it was readable before, its
last readable version stays; if not, its key is in `left_out`, and whoever would take something
away because an object is not there has to look there first. Controllers do so by themselves.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from edgewise.kube.errors import Undecodable
from edgewise.kube.objects import Key, Object, ObjectMeta
from edgewise.kube.unreadable import Unreadable
from edgewise.runtime.caching.selection import EVERYTHING, Selection

T = TypeVar("T", bound=Object)

# What an index function may answer: one value, several, or none.
IndexValues = str | Iterable[Hashable] | None
IndexFunction = Callable[[T], IndexValues]
# Called with (before, after, whether it came with a whole list).
Listener = Callable[[T | None, T | None, bool], None]

# Called with what is left out from now on, or no more.
LeftOutListener = Callable[[Unreadable], None]

MOST_INDEXES = 32
# Where more do not fit, it is not the objects that are wrong but our type: see to that first.
MOST_LEFT_OUT = 100
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
        self._buried: OrderedDict[str | Key, Buried] = OrderedDict()  # the oldest first
        self._void = 0  # revisions above ours and up to here were taken back (etcd restored)
        self._indexes: dict[IndexFunction[T], dict[Hashable, dict[Key, T]]] = {}
        self._listeners: list[Listener[T]] = []
        self._left_out: dict[Key, Unreadable] = {}
        self._left_out_listeners: list[LeftOutListener] = []

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

    @property
    def left_out(self) -> Mapping[Key, Unreadable]:
        """What is there and cannot be read, with or without an earlier version in the cache."""
        return self._left_out

    def on_left_out(self, listener: LeftOutListener) -> None:
        self._left_out_listeners.append(listener)

    # The stream ---------------------------------------------------------------------

    def replace(
        self,
        items: Iterable[T],
        revision: str,
        *,
        begun: float = -math.inf,
        unreadable: Sequence[Unreadable] = (),
    ) -> None:
        """Take over a complete list; what it lacks was deleted while nobody looked.

        `begun` is when the list was asked for. It shows what was true then or later.
        `unreadable` is what is in it besides `items`.
        """
        self._check_number(len(unreadable))
        at = number(revision)
        # A list older than what we know comes from an API server that was set back
        # (etcd restored): then nothing that we hold from "later" is true any more.
        set_back = at < self.revision
        if set_back:
            self._forget_the_future(at)
        self.revision, self.synced = at, True

        listed: dict[Key, T] = {}
        for each in unreadable:
            self._unbury(each.metadata, begun)
        for obj in items:
            self._unbury(obj.metadata, begun)
            if not self._is_past(obj.metadata):
                listed[obj.key] = obj
        unread = {each.key: each for each in unreadable if not self._is_past(each.metadata)}
        for key, old in list(self._objects.items()):
            ahead = number(old.metadata.resource_version) > at and not set_back
            if ahead:
                unread.pop(key, None)
            elif key not in listed and not _same(unread.get(key), old):
                self._set(key, old, None, bulk=True)
        self._left_out_now(unread)
        for key, new in listed.items():
            current = self._objects.get(key)
            if current is None:
                self._set(key, None, self._trimmed(new), bulk=True)
            elif current.metadata.resource_version != new.metadata.resource_version:
                if not set_back and _newer(current, new):
                    continue
                self._set(key, current, self._trimmed(new), bulk=True)

    def _left_out_now(self, unread: Mapping[Key, Unreadable]) -> None:
        for key in [key for key in self._left_out if key not in unread]:
            self._let_in(key)
        for each in unread.values():
            self._leave_out(each)

    def _forget_the_future(self, at: int) -> None:
        _log.warning(
            "the API server shows %s as of %d, but had shown %d: its state was set back",
            self.name,
            at,
            self.revision,
        )
        self._buried.clear()
        held = (number(obj.metadata.resource_version) for obj in self._objects.values())
        self._void = max(self._void, self.revision, *held, 0)

    def apply(self, obj: T, *, deleted: bool = False) -> None:
        """Take over one event of the watch."""
        metadata = obj.metadata
        at = number(metadata.resource_version)
        if at < self.revision:
            return  # events come in order: this one is a repetition
        self.revision = at
        if self._is_past(metadata, deleted=deleted):
            return
        key = metadata.key
        if self._left_out:
            self._let_in(key)
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

    def leave_out(self, unreadable: Unreadable) -> None:
        """An event of the watch brings what cannot be read."""
        metadata, key = unreadable.metadata, unreadable.key
        at = number(metadata.resource_version)
        if at < self.revision:
            return
        self._check_number(len(self._left_out.keys() | {key}))
        self.revision = at
        current = self._objects.get(key)
        if self._is_past(metadata) or (
            current is not None and number(current.metadata.resource_version) > at
        ):
            return
        if current is not None and not _same(unreadable, current):
            self._set(key, current, None)  # it went, and this is its successor
        self._leave_out(unreadable)

    def progress(self, revision: str) -> None:
        """A bookmark: the stream has shown everything up to `revision`."""
        self.revision = max(self.revision, number(revision))

    # Own writes ---------------------------------------------------------------------

    def write_through(self, obj: T) -> None:
        """Put in what the API server answered to a write or a read of our own."""
        at = number(obj.metadata.resource_version)
        if not self.synced or self._is_past(obj.metadata):
            return
        key = obj.key
        left_out = self._left_out.get(key)
        if left_out is not None:
            if number(left_out.metadata.resource_version) >= at:
                return
            self._let_in(key)
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
        left_out = self._left_out.get(key)
        if left_out is not None and left_out.metadata.uid == uid:
            self._let_in(key)
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
        # There may be thousands, of whom nearly always none is old enough.
        while self._buried:
            oldest = next(iter(self._buried))
            if now - self._buried[oldest].when < FORGET_BURIED_AFTER:
                break
            del self._buried[oldest]
        before = self._buried.pop(what, None)
        self._buried[what] = Buried(max(revision, before.revision if before else 0), now)

    def _leave_out(self, unreadable: Unreadable) -> None:
        before = self._left_out.get(unreadable.key)
        self._left_out[unreadable.key] = unreadable
        if before is not None and (before.metadata.uid, before.why) == (
            unreadable.metadata.uid,
            unreadable.why,
        ):
            return  # told already
        _log.warning("%s; nothing is done about it until it is mended or deleted", unreadable.why)
        self._tell_left_out(unreadable)

    def _let_in(self, key: Key) -> None:
        """It can be read again, or is gone."""
        unreadable = self._left_out.pop(key, None)
        if unreadable is not None:
            _log.info("%s %s is no longer left out", self.kind.KIND.kind, key)
            self._tell_left_out(unreadable)

    def _tell_left_out(self, unreadable: Unreadable) -> None:
        for listener in self._left_out_listeners:
            try:
                listener(unreadable)
            except Exception:
                _log.exception("a listener of the %s cache failed", self.kind.KIND.kind)

    def _check_number(self, left_out: int) -> None:
        if left_out > MOST_LEFT_OUT:
            raise Undecodable(
                f"more than {MOST_LEFT_OUT} {self.name} do not fit their type: "
                "is another version of their CRD installed?"
            )

    def _unbury(self, metadata: ObjectMeta, begun: float) -> None:
        for what in (metadata.uid, metadata.key) if self._buried else ():
            buried = self._buried.get(what)
            if buried is not None and buried.when < begun:
                del self._buried[what]  # we took it for deleted, but it is there

    def _is_past(self, metadata: ObjectMeta, *, deleted: bool = False) -> bool:
        if not self._buried:
            return False
        past = False
        for what in (metadata.uid, metadata.key):
            buried = self._buried.get(what)
            if buried is None:
                continue
            if number(metadata.resource_version) <= buried.revision:
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


def _same(unreadable: Unreadable | None, obj: Object) -> bool:
    return unreadable is not None and unreadable.metadata.uid == obj.metadata.uid


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
