"""Sessions as they are sent, written down once for each time something about them changes.

A view of a session costs work for each of its clients. Whoever polls a large session asks for
the same thing again and again, so the answer is kept until anything touches it.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from edgewise.api.fleet import FleetSession
from edgewise.server.changes import Thing
from edgewise.server.fleet import Fleet

MOST_PAGES = 2_000


class SessionPages:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._encode = msgspec.json.Encoder().encode
        self._touched: defaultdict[str, int] = defaultdict(int)
        self._locations = 0
        self._pages: dict[tuple[str, bool], tuple[tuple[object, ...], bytes]] = {}
        fleet.changes.listen(self._changed)

    def read(self, session: FleetSession, *, private: bool) -> bytes:
        """The JSON of `Fleet.session`."""
        key = (session.metadata.name, private)
        version = self._version(session)
        kept = self._pages.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        page = self._encode(self._fleet.session(session, private=private))
        # What is wrong with a location is told with the seconds it has lasted: never kept.
        if all(member.ready for member in self._fleet.members.all()):
            if len(self._pages) >= MOST_PAGES:
                self._pages.clear()
            self._pages[key] = (version, page)
        return page

    def _version(self, session: FleetSession) -> tuple[object, ...]:
        return (
            session.metadata.uid,
            session.metadata.resource_version,
            self._touched.get(session.metadata.name, 0),
            self._locations,
            self._fleet.ledger.queue_version,
        )

    def _changed(self, thing: Thing) -> None:
        if thing.kind == "location":
            self._locations += 1
        else:
            self._touched[thing.session] += 1
            if thing.kind == "session" and self._fleet.hub.session(thing.session) is None:
                del self._touched[thing.session]
