"""Which routes are served right now.

Two sources are laid over each other: what the watches show, which is the
truth, and what the operator has pushed ahead of it, which counts until the watch
shows the same or its time is up. Every step costs as much as it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from edgewise.agents.gateway.refusal import refusal
from edgewise.agents.gateway.settings import Settings
from edgewise.exposure.route import Owner, Route

Changes = dict[str, Route | None]  # route id -> what is served now, None: nothing


class Claim(msgspec.Struct, frozen=True):
    """An owner's claim to a route id. Ids are unique by design; should two owners
    still claim one, the claim that came first is served and the other is refused."""

    owner: Owner
    id: str


class Ahead(msgspec.Struct, frozen=True):
    """A route that was pushed, and until when it counts without the watch."""

    route: Route
    until: float


class RouteTable:
    """The routes of all owners, and who holds what can be held only once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._watched: dict[Owner, dict[str, Route]] = {}
        self._ahead: dict[Claim, Ahead] = {}
        self._wanted: dict[Claim, Route] = {}
        self._holders: dict[object, dict[Claim, None]] = {}  # in order of arrival
        self._served: dict[str, Route] = {}
        self._server: dict[str, Claim] = {}
        self._refused: dict[Claim, str] = {}

    @property
    def served(self) -> Mapping[str, Route]:
        return self._served

    @property
    def refused(self) -> Mapping[Claim, str]:
        return self._refused

    @property
    def ahead(self) -> int:
        return len(self._ahead)

    def replace(self, owner: Owner, routes: Iterable[Route]) -> Changes:
        """Take over all that the watch says about one owner; nothing: it is gone."""
        new = {route.id: route for route in routes}
        old = self._watched.get(owner, {})
        changed = dict(new.items() - old.items())
        return self.amend(owner, changed.values(), old.keys() - new.keys())

    def amend(self, owner: Owner, routes: Iterable[Route], gone: Iterable[str]) -> Changes:
        """Take over what the watch says has changed about one owner."""
        watched = self._watched.setdefault(owner, {})
        claims: dict[Claim, None] = {}
        for id in gone:
            watched.pop(id, None)
            claims[Claim(owner, id)] = None
        for route in routes:
            watched[route.id] = route
            claim = Claim(owner, route.id)
            claims[claim] = None
            ahead = self._ahead.get(claim)
            if ahead is not None and ahead.route == route:
                del self._ahead[claim]
        if not watched:
            del self._watched[owner]
        return self._settle(claims)

    def push(self, owner: Owner, routes: Iterable[Route], until: float) -> Changes:
        """Serve `routes` at once, ahead of the watch."""
        watched = self._watched.get(owner, {})
        claims: dict[Claim, None] = {}
        for route in routes:
            claim = Claim(owner, route.id)
            claims[claim] = None
            if watched.get(route.id) == route:
                self._ahead.pop(claim, None)
            else:
                self._ahead[claim] = Ahead(route, until)
        return self._settle(claims)

    def withdraw(self, owner: Owner, ids: Iterable[str]) -> Changes:
        """Forget what was pushed: Envoy cannot serve it."""
        claims = [claim for id in ids if (claim := Claim(owner, id)) in self._ahead]
        for claim in claims:
            del self._ahead[claim]
        return self._settle(claims)

    def expire(self, now: float) -> Changes:
        """Drop what was pushed and never shown by the watch."""
        over = [claim for claim, ahead in self._ahead.items() if ahead.until <= now]
        for claim in over:
            del self._ahead[claim]
        return self._settle(over)

    def why_not(self, owner: Owner, route: Route) -> str:
        """Why `route` is not what is served under its id; empty if it is."""
        claim = Claim(owner, route.id)
        reason = self._refused.get(claim, "")
        if not reason and self._served.get(route.id) != route:
            reason = "a newer route has taken its place"
        return reason

    def _settle(self, claims: Iterable[Claim]) -> Changes:
        """Bring holders and served routes in line with what `claims` now want."""
        open_claims = dict.fromkeys(claims)
        for claim in list(open_claims):
            for freed in self._want(claim, self._effective(claim)):
                # Whoever waited for what is free now may get it.
                open_claims.update(self._holders.get(freed, {}))
        before: Changes = {}
        for claim in open_claims:
            before.setdefault(claim.id, self._served.get(claim.id))
            if self._server.get(claim.id) == claim:
                del self._server[claim.id]
                del self._served[claim.id]
        for claim in open_claims:
            self._serve(claim)
        return {id: now for id, was in before.items() if (now := self._served.get(id)) != was}

    def _effective(self, claim: Claim) -> Route | None:
        ahead = self._ahead.get(claim)
        if ahead is not None:
            return ahead.route
        return self._watched.get(claim.owner, {}).get(claim.id)

    def _want(self, claim: Claim, route: Route | None) -> list[object]:
        """Queue `claim` for the places of `route`; returns the places it gives up."""
        old = self._wanted.pop(claim, None)
        reason = refusal(route, self._settings) if route is not None else ""
        self._refused.pop(claim, None)
        if reason:
            self._refused[claim] = reason
        elif route is not None:
            self._wanted[claim] = route
        wanted = self._wanted.get(claim)
        needs = self._places(wanted) if wanted is not None else []
        freed = [place for place in self._places(old) if place not in needs] if old else []
        for place in freed:
            holders = self._holders[place]
            del holders[claim]
            if not holders:
                del self._holders[place]
        for place in needs:
            self._holders.setdefault(place, {})[claim] = None
        return freed

    def _serve(self, claim: Claim) -> None:
        """Serve what `claim` wants if it is the first in line for every place."""
        route = self._wanted.get(claim)
        if route is None:
            return
        for place in self._places(route):
            holder = next(iter(self._holders[place]))
            if holder != claim:
                self._refused[claim] = taken(route, place, holder)
                return
        self._refused.pop(claim, None)
        self._served[claim.id] = route
        self._server[claim.id] = claim

    def _places(self, route: Route) -> list[object]:
        """What `route` needs for itself alone."""
        places: list[object] = [route.id]
        if route.protocol != "HTTP":
            places.append((route.protocol, route.listen_port))
        elif route.hostname and self._settings.domain:
            places.append(("host", route.hostname))
        return places


def taken(route: Route, place: object, holder: Claim) -> str:
    if place == route.id:
        return f"{holder.owner} already has this seat"
    if route.protocol == "HTTP":
        return f"hostname {route.hostname} is already taken by another port"
    return f"{route.protocol} port {route.listen_port} is held by {holder.owner}"
