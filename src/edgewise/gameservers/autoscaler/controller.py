"""The controller of autoscalers: asks, decides, and sets the number of a game."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.games import Allocation, GameAutoscaler, GameType
from edgewise.gameservers.autoscaler.apply import carry_out, status_of
from edgewise.gameservers.autoscaler.asking import Asker, Asking
from edgewise.gameservers.autoscaler.observe import by_game_name, by_waiting_game, observe
from edgewise.gameservers.autoscaler.observed import History, ScalerSeen
from edgewise.gameservers.autoscaler.plan import DOWN, UP, ScalerPlan, plan_scaler
from edgewise.gameservers.autoscaler.webhook import Question
from edgewise.gameservers.metrics import GameMetrics
from edgewise.kube.objects import Key
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped


def scalers_of_game(game: GameType, cache: CacheView) -> Iterable[Key]:
    return [each.key for each in cache[GameAutoscaler].by(by_game_name, str(game.key))]


def scalers_of_waiting(allocation: Allocation, cache: CacheView) -> Iterable[Key]:
    """Who waits for a server is demand, at once. Who has one is seen in the status of the game."""
    game = by_waiting_game(allocation)
    return [each.key for each in cache[GameAutoscaler].by(by_game_name, game)] if game else ()


def scalers_beside(scaler: GameAutoscaler, cache: CacheView) -> Iterable[Key]:
    """When the oldest of several goes, the next one takes over."""
    return [each.key for each in cache[GameAutoscaler].by(by_game_name, by_game_name(scaler))]


class GameAutoscalerController(Controller[GameAutoscaler]):
    watches = (
        mapped(GameType, scalers_of_game),
        mapped(Allocation, scalers_of_waiting),
        mapped(GameAutoscaler, scalers_beside),
    )
    workers = 4
    wakes_on_status = False

    def __init__(self, asker: Asker, *, metrics: GameMetrics | None = None) -> None:
        self.asking = Asking(asker, lambda key: self.wake(key))  # noqa: PLW0108 - given later
        self._metrics = metrics or GameMetrics()
        self._history: dict[str, History] = {}
        # Whose all that is: when an autoscaler is gone, its uid cannot be asked for.
        self._uids: dict[Key, str] = {}

    async def reconcile(self, scaler: GameAutoscaler) -> Requeue | None:
        uid, now = scaler.metadata.uid, self.clock()
        self._remember(scaler)
        seen = observe(
            scaler,
            self.cache,
            self._history.get(uid, History()),
            answer=self.asking.take(uid),
            asking=self.asking.is_asking(uid),
            now=now,
        )
        plan = plan_scaler(seen, now)
        game = self.cache[GameType].get(Key(scaler.metadata.namespace, scaler.spec.game_name))
        try:
            await carry_out(self.api, game, plan)
        except BaseException:
            # The next attempt decides again, from what the game is then.
            if seen.answer is not None:
                self.asking.give_back(uid, seen.answer)
            raise
        self._history[uid] = plan.history
        self._ask(seen, plan)
        current = seen.counts.replicas if seen.counts is not None else None
        await self.api.write_status(scaler, status_of(scaler, plan, current, now))
        self._tell(seen, plan)
        return Requeue.at(plan.deadline)

    async def gone(self, key: Key) -> None:
        self._forget(key)

    def _remember(self, scaler: GameAutoscaler) -> None:
        if self._uids.get(scaler.key) != scaler.metadata.uid:
            self._forget(scaler.key)
            self._uids[scaler.key] = scaler.metadata.uid

    def _forget(self, key: Key) -> None:
        if (uid := self._uids.pop(key, None)) is not None:
            self._history.pop(uid, None)
            self.asking.forget(uid)

    def _ask(self, seen: ScalerSeen, plan: ScalerPlan) -> None:
        scaler, webhook = seen.scaler, seen.scaler.spec.policy.webhook
        if plan.ask is None or webhook is None:
            return
        question = Question(
            namespace=scaler.metadata.namespace,
            webhook=webhook,
            game_name=scaler.spec.game_name,
            current_replicas=plan.ask.replicas,
        )
        self.asking.start(scaler.metadata.uid, scaler.key, question)

    def _tell(self, seen: ScalerSeen, plan: ScalerPlan) -> None:
        scaler, counts = seen.scaler, seen.counts
        if plan.decision:
            self._metrics.decisions.labels(plan.decision).inc()
        if plan.desired is not None:
            gauge = self._metrics.wanted
            gauge.labels(scaler.metadata.namespace, scaler.spec.game_name).set(plan.desired)
        if counts is not None and plan.decision in (UP, DOWN) and plan.replicas is not None:
            words = f"{scaler.spec.game_name}: from {counts.replicas} to {plan.replicas} servers"
            self.events.normal(scaler, "Scaled", words)
