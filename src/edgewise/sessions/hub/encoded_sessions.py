"""Sessions as they are sent, written down once for each time something about them changes.

A view of a session costs work for each of its clients. Whoever polls a large session asks for
the same thing again and again, so the answer is kept until anything touches it.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from edgewise.api.global_sessions import GlobalSession
from edgewise.sessions.hub.changes import Thing
from edgewise.sessions.hub.hub_view import HubView

MOST_PAGES = 2_000


class EncodedSessions:
    def __init__(self, hub_view: HubView) -> None:
        self._hub_view = hub_view
        self._encode = msgspec.json.Encoder().encode
        self._touched: defaultdict[str, int] = defaultdict(int)
        self._locations = 0
        self._decoded: dict[tuple[str, bool], tuple[tuple[object, ...], bytes]] = {}
        hub_view.changes.listen(self._changed)

    def read(self, session: GlobalSession, *, private: bool) -> bytes:
        """The JSON of `HubView.session`."""
        key = (session.metadata.name, private)
        version = self._version(session)
        kept = self._decoded.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        page = self._encode(self._hub_view.session(session, private=private))
        # A session that was asked for before the watch has shown it is not kept.
        if self._hub_view.hub.session(session.metadata.name) is not None:
            if len(self._decoded) >= MOST_PAGES:
                self._decoded.clear()
            self._decoded[key] = (version, page)
        return page

    def _version(self, session: GlobalSession) -> tuple[object, ...]:
        return (
            session.metadata.uid,
            session.metadata.resource_version,
            self._touched.get(session.metadata.name, 0),
            self._locations,
            self._hub_view.ledger.queue_version,
        )

    def _changed(self, thing: Thing) -> None:
        if thing.kind == "location":
            self._locations += 1
        elif self._hub_view.hub.session(thing.session) is not None:
            self._touched[thing.session] += 1
        else:
            # Its clients are often gone only after it.
            self._touched.pop(thing.session, None)
            for private in (True, False):
                self._decoded.pop((thing.session, private), None)
