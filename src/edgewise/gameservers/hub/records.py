"""The games of one cluster, as a replica of the server follows them.

It is the cluster of the hub, and the namespace of the hub. The connection is one of its own: a hub
without the kinds of games serves everything else as before.
"""

from __future__ import annotations

import asyncio
import logging

from edgewise.api.games import Allocation, Fleet, GameType, Scheduling, Server
from edgewise.gameservers import names
from edgewise.gameservers.allocation.errors import GamesUnreachable
from edgewise.gameservers.allocation.idle_servers import Pool
from edgewise.gameservers.allocation.line import Game
from edgewise.gameservers.outgoing import outgoing_of
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, KubeError, NotFound
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.objects import Key
from edgewise.kube.paths import collection_path
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.connected_cluster import ConnectedCluster, Health, Patience
from edgewise.runtime.errors import NotThere, Unavailable
from edgewise.runtime.metrics import Metrics

# A hub without games is asked for them again after so long.
ABSENT_SECONDS = 15

_log = logging.getLogger(__name__)

HEARTBEATS_LABEL = "games.edgewise.dev/heartbeats"


class NotInstalled(Unavailable):
    """The cluster of the hub has no kinds of games."""


class Games:
    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self._absent = ""  # why there are no games here
        self.link = ConnectedCluster(
            "the cluster of the games", client, patience=patience, metrics=metrics, label="games"
        )
        here = Selection(namespace=namespace)
        self.servers: Cache[Server] = self.link.cache(Server, here)
        self.allocations: Cache[Allocation] = self.link.cache(Allocation, here)
        self.fleets: Cache[Fleet] = self.link.cache(Fleet, here)
        self.types: Cache[GameType] = self.link.cache(GameType, here)
        self.heartbeats: Cache[ConfigMap] = self.link.cache(
            ConfigMap, Selection(namespace=namespace, labels=HEARTBEATS_LABEL)
        )

    async def follow(self) -> None:
        """Follow the games, from when on there are any: many hubs have none."""
        while True:
            try:
                await self.client.request(
                    "GET", collection_path(Allocation.KIND, self.namespace), params={"limit": "1"}
                )
            except NotFound:
                self._is_absent(
                    "this cluster has no game servers: install the CRDs of games.edgewise.dev, "
                    "with the chart or `edgewise crds`"
                )
            except Forbidden as error:
                self._is_absent(f"the server may not look after games here: {error}")
            except KubeError as error:
                _log.debug("games: %s", error)
            else:
                self._absent = ""
                return await self.link.run()
            await asyncio.sleep(ABSENT_SECONDS if self._absent else 1.0)

    def _is_absent(self, why: str) -> None:
        if why != self._absent:
            _log.info("%s", why)
        self._absent = why

    def check_ready(self) -> None:
        """Raise, with a sentence, if nothing can be decided now.

        A cluster that is only slow to answer is asked all the same: what it writes decides, and
        a caller must not be sent away because many call.
        """
        if self.link.complete and self.link.health is not Health.LOST:
            return
        if self._absent:
            raise NotInstalled(self._absent, ABSENT_SECONDS)
        raise GamesUnreachable

    def game(self, name: str) -> Game | None:
        """A GameType, or a Fleet where there is no GameType of that name."""
        found = self.types.get(Key(self.namespace, name))
        if found is not None:
            current = found.status.current_fleet_name
            pool = (names.FLEET, current) if current else (names.TYPE, name)
            packed = found.spec.fleet_spec.scheduling is Scheduling.PACKED
            return Game(name, pool, packed, spare=self._spare(found, current))
        fleet = self.fleets.get(Key(self.namespace, name))
        if fleet is None:
            return None
        packed = fleet.spec.scheduling is Scheduling.PACKED
        return Game(name, (names.FLEET, name), packed)

    def _spare(self, game: GameType, current: str) -> tuple[Pool, ...]:
        """Fleets of older versions whose idle servers are kept until the new one has enough."""
        kept = []
        for name in game.status.fleets:
            fleet = self.fleets.get(Key(self.namespace, name)) if name != current else None
            if fleet is not None and outgoing_of(fleet.metadata.annotations).keeps_allocated:
                kept.append((names.FLEET, name))
        return tuple(kept)

    def find_game(self, name: str) -> Game:
        """The same, with a sentence where there is none."""
        self.check_ready()
        found = self.game(name)
        if found is None:
            raise NotThere(f"there is no game {name!r}: a game is a GameType or a Fleet")
        return found
