"""What has changed, for those who wait and for those who watch, over all clusters.

Each cache (of the hub, and of each member) has a position: the revision of the last change
it showed. All positions together are a place in the history of the hub which means the
same in every replica, since all of them are shown the same changes. Whoever comes back with
such a place, to whichever replica, is told of everything that changed since: as it is now,
and with what is gone. If a replica does not remember that far back it says so, and the
caller starts from a full picture.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeVar

from edgewise.errors import ReadableError
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import Cache

T = TypeVar("T", bound=Object)

REMEMBERED = 20_000
LONGEST_PLACE = 4096


class Thing(NamedTuple):
    """Something that can be looked at: a client, a session or a location."""

    kind: Literal["client", "session", "location"]
    session: str  # for a location, its name
    client: str = ""


# What a subscription is about: everything, one session with its clients, or one client.
Scope = tuple[()] | tuple[str] | tuple[str, str]

Position = dict[str, int]


class BadPosition(ReadableError, ValueError):
    """Text that is no place in the history."""


def write_position(place: Position) -> str:
    return ",".join(f"{source}:{revision}" for source, revision in sorted(place.items()))


def read_position(text: str) -> Position:
    place: Position = {}
    if not 0 < len(text) <= LONGEST_PLACE:
        raise BadPosition("an event id is a list of sources and revisions")
    for part in text.split(","):
        source, colon, revision = part.rpartition(":")
        if not colon or not source or not (revision.isascii() and revision.isdigit()):
            raise BadPosition(f"the event id has a part that cannot be read: {part[:80]!r}")
        place[source] = int(revision[:20])
    return place


class Subscription:
    """Things that changed and were not taken yet; each is in here once."""

    def __init__(self) -> None:
        self._dirty: dict[Thing, None] = {}
        self._wake = asyncio.Event()

    def add(self, thing: Thing) -> None:
        self._dirty[thing] = None
        self._wake.set()

    def take(self) -> list[Thing]:
        things = list(self._dirty)
        self._dirty.clear()
        self._wake.clear()
        return things

    def wake(self) -> None:
        self._wake.set()

    async def wait(self) -> None:
        await self._wake.wait()


class Changes:
    def __init__(self, remembered: int = REMEMBERED) -> None:
        self.place: Position = {}
        self._forgotten: Position = {}  # changes up to here are no longer remembered
        self._history: deque[tuple[str, int, Thing]] = deque()
        self._remembered = remembered
        self._notes: dict[Thing, None] = {}  # what only this replica saw, the latest last
        self._subscriptions: defaultdict[Scope, set[Subscription]] = defaultdict(set)
        self._listeners: list[Callable[[Thing], None]] = []
        self._moved = asyncio.Event()
        self.closed = False

    def listen(self, listener: Callable[[Thing], None]) -> None:
        """Call `listener` with each thing that changes, at once."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Nothing more will be told; whoever waits is woken to find that out."""
        self.closed = True
        self.wake_all()

    def wake_all(self) -> None:
        """Let everybody who waits look again, at something that is not a thing that is shown."""
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.wake()

    def follow(
        self,
        source: str,
        cache: Cache[T],
        touched: Callable[[T | None, T | None], Iterable[Thing]],
    ) -> Callable[[], None]:
        """Take in the changes of a cache; answers how to stop."""

        def changed(old: T | None, new: T | None, _: bool) -> None:
            self._add(source, cache.revision, touched(old, new))

        # A cache that begins anew (a member that was reconnected) has no history here.
        self.place[source] = self._forgotten[source] = cache.revision
        return cache.subscribe(changed)

    def forget(self, source: str) -> None:
        self.place.pop(source, None)
        self._forgotten.pop(source, None)

    def note(self, thing: Thing) -> None:
        """A change that only this replica sees, such as a location that falls silent.

        It has no place in the history of the hub, so whoever comes back is told of it again.
        """
        self._notes.pop(thing, None)
        self._notes[thing] = None
        if len(self._notes) > self._remembered:
            del self._notes[next(iter(self._notes))]
        self._tell(thing)

    @contextlib.contextmanager
    def subscribe(self, scope: Scope) -> Iterator[Subscription]:
        subscription = Subscription()
        # A session that goes takes its clients along, so they all hear of that too.
        scopes: list[Scope] = [scope, (scope[0], "")] if len(scope) == 2 else [scope]
        for each in scopes:
            self._subscriptions[each].add(subscription)
        try:
            yield subscription
        finally:
            for each in scopes:
                self._subscriptions[each].discard(subscription)
                if not self._subscriptions[each]:
                    del self._subscriptions[each]

    async def caught_up(self, place: Position, timeout: float) -> bool:
        """Wait until this replica has seen all that `place` stands for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not self._has(place):
                    self._moved.clear()
                    await self._moved.wait()
        return self._has(place)

    def since(self, place: Position, scope: Scope) -> list[Thing] | None:
        """What changed after `place`; None if nobody here remembers that far back."""
        if not self._has(place):
            return None
        for source, forgotten in self._forgotten.items():
            if place.get(source, -1) < forgotten:
                return None
        things: dict[Thing, None] = {}
        for source, revision, thing in self._history:
            if revision > place.get(source, -1) and _concerns(scope, thing):
                things[thing] = None
        things.update({thing: None for thing in self._notes if _concerns(scope, thing)})
        return list(things)

    def _has(self, place: Position) -> bool:
        return all(self.place.get(source, -1) >= revision for source, revision in place.items())

    def _add(self, source: str, revision: int, things: Iterable[Thing]) -> None:
        self.place[source] = revision
        for thing in things:
            self._history.append((source, revision, thing))
            self._tell(thing)
        while len(self._history) > self._remembered:
            dropped, at, _ = self._history.popleft()
            if dropped in self._forgotten:
                self._forgotten[dropped] = max(self._forgotten[dropped], at)
        self._moved.set()

    def _tell(self, thing: Thing) -> None:
        for listener in self._listeners:
            listener(thing)
        scopes: list[Scope] = [()]
        if thing.kind != "location":
            scopes += [(thing.session,), (thing.session, thing.client)]
        for scope in scopes:
            for subscription in self._subscriptions.get(scope, ()):
                subscription.add(thing)


def _concerns(scope: Scope, thing: Thing) -> bool:
    if not scope:
        return True
    if thing.kind == "location" or thing.session != scope[0]:
        return False
    return len(scope) == 1 or thing.kind == "session" or thing.client == scope[1]
