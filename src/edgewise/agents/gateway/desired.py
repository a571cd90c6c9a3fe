"""All that Envoy should have, kept in step with the served routes change by change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgewise.agents.gateway.http_listener import fixed_resources
from edgewise.agents.gateway.resource import Resource, ResourceType
from edgewise.agents.gateway.seat_port import port_name, port_resources
from edgewise.agents.gateway.seat_scope import scope_of
from edgewise.agents.gateway.settings import Settings
from edgewise.agents.gateway.table import Changes
from edgewise.exposure.route import Route

Part = tuple[ResourceType, str]

PORT_PARTS = (ResourceType.CLUSTER, ResourceType.ENDPOINTS, ResourceType.LISTENER)


class Desired:
    """The resources by type and name, and which of them make up a route."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._routes: dict[str, Route] = {}
        # Scope label -> the routes in it, by whether they are reached by path or host.
        self._scopes: dict[str, dict[tuple[str, str], Route]] = {}
        self.resources: dict[ResourceType, dict[str, Resource]] = {
            type: {} for type in ResourceType
        }
        self.fixed: list[Part] = []  # without these nobody is served
        for resource in fixed_resources(settings):
            self.resources[resource.type][resource.name] = resource
            self.fixed.append((resource.type, resource.name))

    def apply(self, changes: Changes) -> set[Part]:
        """Follow the table; returns the parts that differ now."""
        before: dict[Part, str | None] = {}
        labels: set[str] = set()
        for id in changes:
            old = self._routes.pop(id, None)
            if old is not None:
                self._forget(old, labels, before)
        for id, route in changes.items():
            if route is not None:
                self._routes[id] = route
                self._add(route, labels, before)
        for label in labels:
            self._rebuild(label, before)
        return {part for part, version in before.items() if self.version(part) != version}

    def parts(self, id: str) -> Iterable[Part]:
        """What Envoy must have acknowledged before the route `id` works."""
        route = self._routes.get(id)
        if route is None:
            return ()
        if route.protocol != "HTTP":
            name = port_name(route)
            return [(type, name) for type in PORT_PARTS]
        return [(ResourceType.SCOPE, label) for label, _ in self._scope_keys(route)]

    def version(self, part: Part) -> str | None:
        resource = self.resources[part[0]].get(part[1])
        return None if resource is None else resource.version

    @property
    def routes(self) -> Mapping[str, Route]:
        return self._routes

    def _forget(self, route: Route, labels: set[str], before: dict[Part, str | None]) -> None:
        if route.protocol == "HTTP":
            for label, key in self._scope_keys(route):
                self._scopes[label].pop(key, None)
                labels.add(label)
            return
        name = port_name(route)
        for type in PORT_PARTS:
            before.setdefault((type, name), self.version((type, name)))
            self.resources[type].pop(name, None)

    def _add(self, route: Route, labels: set[str], before: dict[Part, str | None]) -> None:
        if route.protocol == "HTTP":
            for label, key in self._scope_keys(route):
                self._scopes.setdefault(label, {})[key] = route
                labels.add(label)
            return
        for resource in port_resources(route, self._settings):
            part = (resource.type, resource.name)
            before.setdefault(part, self.version(part))
            self.resources[resource.type][resource.name] = resource

    def _rebuild(self, label: str, before: dict[Part, str | None]) -> None:
        part = (ResourceType.SCOPE, label)
        before.setdefault(part, self.version(part))
        routes = self._scopes[label]
        if not routes:
            del self._scopes[label]
            self.resources[ResourceType.SCOPE].pop(label, None)
            return
        ordered = sorted(routes.items())
        self.resources[ResourceType.SCOPE][label] = scope_of(
            label,
            by_path=[route for (kind, _), route in ordered if kind == "path"],
            by_host=[route for (kind, _), route in ordered if kind == "host"],
        )

    def _scope_keys(self, route: Route) -> list[tuple[str, tuple[str, str]]]:
        keys = [(route.seat, ("path", route.port_name))]
        if route.hostname and self._settings.domain:
            keys.append((route.hostname.partition(".")[0], ("host", route.id)))
        return keys
