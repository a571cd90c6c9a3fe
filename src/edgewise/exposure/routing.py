"""What a source of routes tells a gateway, whichever domain it belongs to.

The gateway knows no domain: it is handed its sources when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from edgewise.exposure.route import Owner, Route
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import Cache

T = TypeVar("T", bound=Object)


class Routing(Protocol):
    """The routes of one gateway."""

    def show(self, owner: Owner, routes: Iterable[Route]) -> None:
        """These are all the routes of `owner`."""

    def amend(self, owner: Owner, routes: Iterable[Route], gone: Iterable[str]) -> None:
        """These routes of `owner` are new, and these ids gone."""


class RouteSource(Protocol[T]):
    """The objects of one domain from which routes are made. It keeps nothing itself: what it
    remembers of them belongs to the routing that it was told to keep in step."""

    @property
    def domain(self) -> str:
        """Stands in the owner of each of its routes; no two sources of a gateway share it."""

    @property
    def kind(self) -> type[T]:
        """What to watch, decoded only as far as routes are made of it."""

    def trim(self, obj: T) -> T:
        """What to keep of an object."""

    def follow(self, cache: Cache[T], routing: Routing, *, wildcard: str) -> Callable[[], None]:
        """Keep `routing` in step with `cache`; returns how to stop. With `wildcard`, a DNS
        domain, routes of HTTP have host names below it too."""
