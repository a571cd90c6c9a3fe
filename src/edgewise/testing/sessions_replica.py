"""A replica whose half of sessions is at hand, for tests that look inside."""

from __future__ import annotations

from edgewise.kube.client import Client
from edgewise.server.hub_half import Halves
from edgewise.server.replica import Replica, Settings
from edgewise.server.routes.sessions.half import SESSIONS


class SessionsReplica(Replica):
    def __init__(self, client: Client, settings: Settings, halves: Halves = (SESSIONS,)) -> None:
        super().__init__(client, settings, halves)
        sessions = self.of(SESSIONS)
        self.hub = sessions.hub
        self.members = sessions.members
        self.hub_view = sessions.hub_view
        self.bindings = sessions.bindings
        self.joining = sessions.joining
        self.lifecycle = sessions.lifecycle
        self.removals = sessions.removals
        self.presence = sessions.presence
