"""What games do in one replica of the server, without its HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from edgewise.api.games import Allocation, Fleet, GameType
from edgewise.gameservers.allocation.apply import Writer
from edgewise.gameservers.allocation.claiming import Claims
from edgewise.gameservers.allocation.idle_servers import IdleServers
from edgewise.gameservers.allocation.matches import Matches
from edgewise.gameservers.hub.duties import Duties
from edgewise.gameservers.hub.metrics import ALLOCATIONS, forget_game, show_games
from edgewise.gameservers.hub.records import HEARTBEATS_LABEL, Games
from edgewise.kube.client import Client
from edgewise.runtime.connected_cluster import Patience
from edgewise.runtime.heartbeats.presence import Presence
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.tasks import Task


class GamesHalf:
    """`replica` tells replicas apart: each begins its search for servers at another place."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
        replica: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.games = Games(client, namespace, patience=patience, metrics=metrics)
        self.matches = Matches(self.games.servers, self.games.allocations, namespace)
        self.idle = IdleServers(self.games.servers, self.games.allocations, salt=replica)
        self.writer = Writer(client, namespace)
        self.claims = Claims(self.matches, self.idle, self.writer, clock=clock)
        self.presence = Presence(
            self.games.link,
            namespace,
            self.games.heartbeats,
            label=HEARTBEATS_LABEL,
            prefix="edgewise-games-heartbeats",
            replica=replica,
        )
        self.games.allocations.subscribe(self._allocation_changed)
        self.games.types.subscribe(self._game_changed)
        self.games.fleets.subscribe(self._game_changed)
        self.duties_of_leader = Duties(self.games, self.claims, self.presence, clock=clock)
        self.closed = False

    def tasks(self) -> tuple[Task, ...]:
        """Of every replica."""
        return (
            Task("the cluster of the games", self.games.follow),
            Task("heartbeats of matches", self.presence.run),
        )

    def duties(self) -> tuple[Task, ...]:
        """Of the one that leads."""
        return (Task("allocations", self.duties_of_leader.run),)

    def show_metrics(self, registry: CollectorRegistry) -> None:
        show_games(self.games, registry)

    def count(self, game: str, outcome: str) -> None:
        """A call for a server; of a game that went meanwhile nothing is counted any more."""
        if self.games.game(game) is not None:
            ALLOCATIONS.labels(game, outcome).inc()

    def close(self) -> None:
        """Who waits for a server is answered now."""
        self.closed = True
        self.matches.wake_all()

    def _game_changed(
        self, old: GameType | Fleet | None, new: GameType | Fleet | None, _: bool
    ) -> None:
        if new is None and old is not None and self.games.game(old.metadata.name) is None:
            forget_game(old.metadata.name)

    def _allocation_changed(self, old: Allocation | None, new: Allocation | None, _: bool) -> None:
        if new is None:
            if old is not None:
                self.presence.forget(old.metadata.uid)
            return
        self.presence.know(new.metadata.uid)
        if old is None:
            self.presence.begin(new.metadata.uid)
