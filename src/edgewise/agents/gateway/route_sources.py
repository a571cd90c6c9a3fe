"""Of which domains the gateway serves routes; the rest of the gateway knows none of them."""

from __future__ import annotations

from typing import Any

from edgewise.exposure.routing import RouteSource
from edgewise.sessions.route_source import SessionRoutes

ROUTE_SOURCES: tuple[RouteSource[Any], ...] = (SessionRoutes(),)
