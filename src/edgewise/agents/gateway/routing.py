"""From routes to Envoy: one place through which every change goes.

The watch shows, the operator pushes, time passes; each ends in the same three steps:
settle the table, rebuild what differs, hand it to every Envoy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from edgewise.agents.gateway.desired import Desired
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.settings import Settings
from edgewise.agents.gateway.streams import Outcome, Streams
from edgewise.agents.gateway.table import Changes, RouteTable
from edgewise.exposure.route import Owner, Route

AHEAD_SECONDS = 30.0
TICK_SECONDS = 1.0


class Routing:
    """The routes of one gateway."""

    def __init__(
        self, settings: Settings, metrics: GatewayMetrics, clock: Callable[[], float]
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._table = RouteTable(settings)
        self._desired = Desired(settings)
        self.streams = Streams(self._desired, metrics, clock)
        self.known = asyncio.Event()  # set once the watch has shown everything

    def show(self, owner: Owner, routes: Iterable[Route]) -> None:
        """The watch says that these are all the routes of `owner`."""
        self._follow(self._table.replace(owner, routes))

    def amend(self, owner: Owner, routes: Iterable[Route], gone: Iterable[str]) -> None:
        """The watch says that these routes of `owner` are new, and these ids gone."""
        self._follow(self._table.amend(owner, routes, gone))

    async def push(self, owner: Owner, routes: list[Route], timeout: float) -> Outcome:
        """Serve `routes` now, and wait until every Envoy does."""
        self._follow(self._table.push(owner, routes, self._clock() + AHEAD_SECONDS))
        wrong = {
            route.id: reason for route in routes if (reason := self._table.why_not(owner, route))
        }
        outcome = await self.streams.settle(
            [route.id for route in routes if route.id not in wrong], timeout
        )
        outcome.rejected.update(wrong)
        if outcome.rejected:
            self._follow(self._table.withdraw(owner, outcome.rejected))
        self._metrics.pushes.labels("acked").inc(len(outcome.acked))
        self._metrics.pushes.labels("rejected").inc(len(outcome.rejected))
        self._metrics.pushes.labels("pending").inc(len(outcome.pending))
        return outcome

    async def keep_time(self) -> None:
        """Let pushed routes run out, and offer refused ones to Envoy again."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._follow(self._table.expire(self._clock()))
            self.streams.retry()
            self._metrics.oldest.set(self.streams.oldest_change())

    @property
    def unready(self) -> str:
        """Why this gateway cannot be relied on right now; empty if it can."""
        if not self.known.is_set():
            return "the routes are not known yet"
        if not len(self.streams):
            return "no Envoy is connected"
        if not self.streams.in_sync:
            return "Envoy has not acknowledged everything yet"
        refused = self.streams.refusal(self._desired.fixed)
        return f"Envoy cannot open its entry point: {refused}" if refused else ""

    def _follow(self, changes: Changes) -> None:
        if changes:
            self._count(changes)
            self.streams.publish(self._desired.apply(changes))
        self._metrics.ahead.set(self._table.ahead)
        self._metrics.refused.set(len(self._table.refused))

    def _count(self, changes: Changes) -> None:
        for id, route in changes.items():
            old = self._desired.routes.get(id)
            if old is not None:
                self._metrics.routes.labels(old.protocol).dec()
            if route is not None:
                self._metrics.routes.labels(route.protocol).inc()
