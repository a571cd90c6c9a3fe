"""What the plan of an autoscaler sees, gathered from the shared caches."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.games import Allocation, GameAutoscaler, GameType
from edgewise.gameservers.autoscaler.observed import Counts, History, Said, ScalerSeen, Trouble
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.watches import CacheView
from edgewise.workloads.deadlines import moment


def by_game_name(scaler: GameAutoscaler) -> str:
    return str(Key(scaler.metadata.namespace, scaler.spec.game_name))


def by_waiting_game(allocation: Allocation) -> str | None:
    """The game that a match waits for; None once it has a server."""
    if allocation.spec.waiting is None:
        return None
    return str(Key(allocation.metadata.namespace, allocation.spec.game))


def observe(
    scaler: GameAutoscaler,
    cache: CacheView,
    history: History,
    *,
    answer: Said | Trouble | None,
    asking: bool,
    now: float,
) -> ScalerSeen:
    game = cache[GameType].get(Key(scaler.metadata.namespace, scaler.spec.game_name))
    return ScalerSeen(
        scaler=scaler,
        counts=counts_of(game, cache[Allocation], now) if game is not None else None,
        rival=rival_of(scaler, cache),
        going=game is not None and game.metadata.deleting,
        answer=answer,
        asking=asking,
        history=history,
    )


def counts_of(game: GameType, allocations: Cache[Allocation], now: float) -> Counts:
    # What cannot be read waits for nothing, and neither does one whose time is over.
    deadlines = (
        moment(each.spec.waiting.until)
        for each in allocations.by(by_waiting_game, str(game.key))
        if each.spec.waiting is not None
    )
    return Counts(
        replicas=game.spec.fleet_spec.scaling.replicas,
        ready=game.status.ready or 0,
        allocated=game.status.allocated or 0,
        queued=sum(until is not None and until > now for until in deadlines),
    )


def rival_of(scaler: GameAutoscaler, cache: CacheView) -> str:
    """An older autoscaler of the same game: the oldest acts, and all others say so."""
    others = cache[GameAutoscaler].by(by_game_name, by_game_name(scaler))
    oldest = in_age_order((*others, scaler))[0]
    return "" if oldest.metadata.uid == scaler.metadata.uid else oldest.metadata.name


def in_age_order(scalers: Iterable[GameAutoscaler]) -> list[GameAutoscaler]:
    return sorted(scalers, key=_age)


def _age(scaler: GameAutoscaler) -> tuple[str, str]:
    return (scaler.metadata.creation_timestamp or "", scaler.metadata.name)
