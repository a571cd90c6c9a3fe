"""Credentials for the TURN servers of locations, made for one client at a time.

Nothing is stored, and every replica makes the same ones: a credential begins at a multiple of
half its lifetime and not when somebody asks. So whoever asks again before half of it is over
gets what it has, later a fresh one, and never one with less than half of its time left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from edgewise.api.exposure import Turn
from edgewise.api.global_sessions import ClientBinding
from edgewise.exposure.turn import IceServer, TurnError, TurnRealm, realm_of
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Key
from edgewise.sessions.hub.records import Hub

_log = logging.getLogger(__name__)


class _Known(msgspec.Struct, frozen=True):
    """What was made of a location's settings, until they change."""

    settings: Turn
    secret: Secret | None
    realm: TurnRealm | None


class TurnDesk:
    def __init__(self, hub: Hub, *, clock: Callable[[], float] = time.time) -> None:
        self._hub = hub
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def ice_servers(self, binding: ClientBinding) -> list[IceServer]:
        """Empty for a client without a seat, and where there is no TURN server that works."""
        realm = self._realm(binding.spec.location) if binding.spec.location else None
        if realm is None:
            return []
        # The name of the binding is different for each client of each session, so that none
        # uses up the relays of another, and it can be in a user name whatever the client's id.
        began = beginning(self._clock(), realm.lifetime)
        return [realm.credentials(binding.metadata.name, now=began)]

    def _realm(self, location: str) -> TurnRealm | None:
        found = self._hub.location(location)
        if found is None or not found.spec.turn.urls:
            self._known.pop(location, None)
            return None
        settings = found.spec.turn
        secret = self._hub.secrets.get(Key(self._hub.namespace, settings.secret))
        known = self._known.get(location)
        if known is None or known.settings != settings or known.secret is not secret:
            known = _Known(settings, secret, _usable(location, settings, secret))
            # Nobody asks about a location that has left, whose secret should not stay here.
            there = {name: kept for name, kept in self._known.items() if self._hub.location(name)}
            self._known = {**there, location: known}
        return known.realm


def _usable(location: str, settings: Turn, secret: Secret | None) -> TurnRealm | None:
    """Clients can join without TURN, so what is wrong with it keeps nobody out."""
    try:
        return realm_of(settings, secret)
    except TurnError as error:
        _log.error("clients in %s get no TURN credentials: %s", location, error)
        return None


def beginning(now: float, lifetime: int) -> float:
    """When the credentials that are given out now began to count."""
    half = max(1, lifetime // 2)
    return now // half * half
