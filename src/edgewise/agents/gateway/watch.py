"""Shows every change of a session to the routing, and survives whatever a session says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from edgewise.agents.gateway.routing import Routing
from edgewise.kube.objects import Object
from edgewise.runtime.cache import Cache
from edgewise.sessions.routes import Route

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)


def follow(
    cache: Cache[T], routing: Routing, routes_of: Callable[[T], Iterable[Route]]
) -> Callable[[], None]:
    """Keep `routing` in step with `cache`; returns how to stop."""

    def changed(before: T | None, after: T | None, _: bool) -> None:
        known = after or before
        if known is None:
            return
        try:
            routes = list(routes_of(after)) if after is not None else []
        except Exception:
            # A status that somebody wrote by hand must not take the others down; its
            # clients keep what they had.
            log.exception("the routes of session %s cannot be read", known.key)
            return
        routing.show(str(known.key), routes)

    return cache.subscribe(changed)
