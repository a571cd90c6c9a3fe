"""Why a location takes nobody although its cluster is well, in its object for `kubectl`."""

from __future__ import annotations

from edgewise.api.global_sessions import Location
from edgewise.sessions.hub.members import Members
from edgewise.sessions.hub.records import Hub


class LocationMessages:
    def __init__(self, hub: Hub, members: Members) -> None:
        self._hub = hub
        self._members = members
        self._written: dict[str, str] = {}

    async def look(self) -> None:
        for location in self._hub.locations:
            name = location.metadata.name
            trouble = self._members.own_trouble(name)
            message = f"{name} {trouble}"[:1024] if trouble else ""
            # What was written may not be shown yet.
            if location.status.message != message and self._written.get(name) != message:
                await self._write(location, message)
            self._written[name] = message
        there = {location.metadata.name for location in self._hub.locations}
        for name in self._written.keys() - there:
            del self._written[name]

    async def _write(self, location: Location, message: str) -> None:
        await self._hub.client.patch(
            Location,
            location.metadata.name,
            location.metadata.namespace,
            subresource="status",
            body={"status": {"message": message or None}},
        )
