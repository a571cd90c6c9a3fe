"""Changes as server-sent events, which a client that reconnects takes up where it left off.

The id of an event is a place in the history of the hub (see `changes`). Of several events
that are sent together only the last carries an id: whoever loses the connection in between
gets all of them again rather than missing one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from edgewise.api.global_sessions import GlobalSession
from edgewise.runtime.caching.cache import number
from edgewise.server.http.welcome import Welcome
from edgewise.sessions.hub.changes import (
    BadPosition,
    Scope,
    Subscription,
    Thing,
    read_position,
    write_position,
)
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.views import LocationView, SessionSummary

KEEP_ALIVE_SECONDS = 15.0
CATCH_UP_SECONDS = 2.0
# Together, so that a burst of changes is one packet and not a hundred.
GATHER_SECONDS = 0.02

_encode = msgspec.json.Encoder().encode


class Everything(msgspec.Struct):
    """Everything, for those who watch everything."""

    sessions: list[SessionSummary]
    locations: list[LocationView]


class Gone(msgspec.Struct, omit_defaults=True):
    """What is not there any more."""

    session: str = ""
    client: str = ""
    location: str = ""


class EventStream:
    """Ends when its reader is no longer welcome, or when the session that it is about is gone.

    `session` is that session, and never another one that gets its name later.
    """

    def __init__(
        self,
        hub_view: HubView,
        session: GlobalSession | None,
        client: str,
        *,
        last_event_id: str | None,
        private: bool,
        welcome: Welcome,
    ) -> None:
        self._hub_view = hub_view
        self._session = session
        self._scope = _scope(session, client)
        self._last_event_id = last_event_id
        self._private = private
        self._welcome = welcome
        self._sent: dict[Thing, bytes] = {}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        changes = self._hub_view.changes
        with changes.subscribe(self._scope) as subscription:
            yield await self._beginning()
            while not changes.closed and not self._over():
                changed = await self._wait(subscription)
                if not await self._welcome.holds():
                    return
                if not changed:
                    yield b": still here\n\n"
                elif not self._over() and (events := self._events(subscription.take())):
                    yield events
            if self._session is not None and self._over():
                yield _event("session-gone", _gone(self._session.metadata.name), self._place())

    async def _wait(self, subscription: Subscription) -> bool:
        """Whether anything has changed; not, if it is time for a sign of life."""
        seconds = min(KEEP_ALIVE_SECONDS, max(0.0, self._welcome.left))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await subscription.wait()
            await asyncio.sleep(GATHER_SECONDS)
            return True
        return False

    def _over(self) -> bool:
        """Whether the session is gone; one that the cache does not show yet is not."""
        if self._session is None:
            return False
        meta, sessions = self._session.metadata, self._hub_view.hub.sessions
        shown = sessions.get(meta.key)
        if shown is None:
            return sessions.revision >= number(meta.resource_version)
        return shown.metadata.uid != meta.uid

    async def _beginning(self) -> bytes:
        changes = self._hub_view.changes
        if self._last_event_id:
            try:
                place = read_position(self._last_event_id)
            except BadPosition:
                return self._snapshot()
            if await changes.caught_up(place, CATCH_UP_SECONDS):
                things = changes.since(place, self._scope)
                if things is not None and not self._over():
                    return self._events(things) or b": nothing new\n\n"
        return self._snapshot()

    def _snapshot(self) -> bytes:
        """The whole picture; what was known before is to be forgotten."""
        return _event("snapshot", self._picture(), self._place())

    def _picture(self) -> bytes:
        hub_view, hub = self._hub_view, self._hub_view.hub
        if not self._scope:
            sessions = sorted(hub.sessions, key=lambda session: session.metadata.name)
            return _encode(
                Everything([hub_view.summary(each) for each in sessions], hub_view.locations())
            )
        session = hub.session(self._scope[0])
        if session is None or self._over():
            return b"null"
        if len(self._scope) == 1:
            return _encode(hub_view.session(session, private=self._private))
        binding = hub.binding(session, self._scope[1])
        if binding is None:
            return b"null"
        return _encode(hub_view.client(binding, private=self._private))

    def _events(self, things: list[Thing]) -> bytes:
        if not self._scope:
            # Who watches everything is told how many clients a session has, not which.
            things = list(
                dict.fromkeys(
                    Thing("session", thing.session) if thing.kind == "client" else thing
                    for thing in things
                )
            )
        events = [event for thing in things if (event := self._event(thing)) is not None]
        if not events:
            return b""
        return b"".join(
            _event(name, data, self._place() if number == len(events) else "")
            for number, (name, data) in enumerate(events, 1)
        )

    def _event(self, thing: Thing) -> tuple[str, bytes] | None:
        name, data = self._look(thing)
        # A change somewhere else in the object does not concern whoever watches this.
        if self._sent.get(thing) == data:
            return None
        if name.endswith("-gone"):
            self._sent.pop(thing, None)
        else:
            self._sent[thing] = data
        return name, data

    def _look(self, thing: Thing) -> tuple[str, bytes]:
        hub_view, hub = self._hub_view, self._hub_view.hub
        if thing.kind == "location":
            location = hub_view.location(thing.session)
            if location is None:
                return "location-gone", _encode(Gone(location=thing.session))
            return "location", _encode(location)
        session = hub.session(thing.session)
        if session is None:
            return "session-gone", _gone(thing.session)
        if thing.kind == "session":
            return "session", _encode(hub_view.summary(session))
        binding = hub.binding(session, thing.client)
        if binding is None:
            return "client-gone", _encode(Gone(session=thing.session, client=thing.client))
        # Who watches a whole session asks for the credentials of a client that needs them.
        of_one = len(self._scope) == 2
        view = hub_view.client(binding, private=self._private, credentials=of_one)
        return "client", _encode(view)

    def _place(self) -> str:
        return write_position(self._hub_view.changes.place)


def _scope(session: GlobalSession | None, client: str) -> Scope:
    if session is None:
        return ()
    name = session.metadata.name
    return (name, client) if client else (name,)


def _gone(session: str) -> bytes:
    return _encode(Gone(session=session))


def _event(name: str, data: bytes, id: str) -> bytes:
    # JSON has no line breaks, so one `data:` line holds it.
    head = f"id: {id}\nevent: {name}\ndata: " if id else f"event: {name}\ndata: "
    return head.encode() + data + b"\n\n"
