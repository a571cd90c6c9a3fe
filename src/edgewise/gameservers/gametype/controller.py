"""The controller of games: keeps the fleet of the newest version, and lets older ones go."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from edgewise.api.games import Fleet, GameType, GameTypeStatus
from edgewise.gameservers import names
from edgewise.gameservers.gametype.apply import GameWriter
from edgewise.gameservers.gametype.observe import by_game, observe
from edgewise.gameservers.gametype.observed import GameSeen
from edgewise.gameservers.gametype.plan import GAME_CONDITIONS, GamePlan, plan_game, plan_removal
from edgewise.gameservers.metrics import GameMetrics
from edgewise.kube.objects import Key
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import owned
from edgewise.workloads.deadlines import stamp

# A game that goes looks again this often; its fleets wake it before.
LOOK_AGAIN = 5.0


class GameTypeController(Controller[GameType]):
    watches = (owned(Fleet),)
    finalizer: ClassVar[str] = names.GAMETYPE_FINALIZER
    workers: ClassVar[int] = 4

    def __init__(self, *, metrics: GameMetrics | None = None) -> None:
        self._metrics = metrics or GameMetrics()

    async def reconcile(self, game: GameType) -> Requeue | None:
        now = self.clock()
        seen = observe(game, self.cache)
        plan = plan_game(seen, now)
        await self._writer(game, now).carry_out(plan)
        await self.api.write_status(game, self._status(seen, plan, now))
        self._tell(game, plan)
        return Requeue.at(plan.deadline)

    async def finalize(self, game: GameType) -> Requeue | None:
        now = self.clock()
        seen = observe(game, self.cache)
        plan = plan_removal(seen)
        await self._writer(game, now).carry_out(plan)
        if not seen.fleets:
            self._metrics.forget_game(game.metadata.namespace, game.metadata.name)
            return None
        await self.api.write_status(game, self._status(seen, plan, now))
        return Requeue.after(LOOK_AGAIN)

    async def gone(self, key: Key) -> None:
        self._metrics.forget_game(key.namespace, key.name)

    def _writer(self, game: GameType, now: float) -> GameWriter:
        fleets = {
            fleet.metadata.name: fleet for fleet in self.cache[Fleet].by(by_game, game.metadata.uid)
        }
        return GameWriter(self.api, game, fleets, now=now)

    def _status(self, seen: GameSeen, plan: GamePlan, now: float) -> GameTypeStatus:
        game, old = seen.game, seen.game.status
        deleting = game.metadata.deleting
        return msgspec.structs.replace(
            old,
            observed_generation=game.metadata.generation,
            current_fleet_name=plan.current,
            fleets={fleet.name: fleet.servers for fleet in seen.fleets},
            phase=plan.phase.value,
            version=old.version if deleting or not plan.newest else seen.version,
            replicas=sum(fleet.servers for fleet in seen.fleets),
            ready=sum(fleet.ready for fleet in seen.fleets),
            allocated=sum(fleet.busy for fleet in seen.fleets),
            selector=f"{names.TYPE}={game.metadata.name}",
            progress_since=stamp(plan.since) if plan.since is not None else old.progress_since,
            conditions=GAME_CONDITIONS.report(
                old.conditions, plan.findings, generation=game.metadata.generation, now=now
            ),
        )

    def _tell(self, game: GameType, plan: GamePlan) -> None:
        if plan.tell is None:
            return
        reason, sentence = plan.tell
        self._metrics.rollouts.labels(reason).inc()
        say = self.events.warning if reason == "RolloutStopped" else self.events.normal
        say(game, reason, sentence)
