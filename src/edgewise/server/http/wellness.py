"""Whether this replica is well, for probes."""

from __future__ import annotations

import msgspec
from litestar import Response, Router, get

from edgewise.server.replica import Replica


class Wellness(msgspec.Struct):
    status: str
    reason: str = ""


def wellness_routes(replica: Replica) -> Router:
    link = replica.link

    @get("/healthz", open=True, include_in_schema=False)
    async def healthz() -> Wellness:
        return Wellness("ok")

    @get("/readyz", open=True, include_in_schema=False)
    async def readyz() -> Response[Wellness]:
        # An outage of the hub is no reason to take replicas away: reads still work.
        if link.complete:
            return Response(Wellness("ok", link.trouble))
        return Response(Wellness("not ready", link.trouble), status_code=503)

    return Router("/", route_handlers=[healthz, readyz])
