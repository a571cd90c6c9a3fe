"""Carries the plan of an autoscaler out: the number of its game, then its status."""

from __future__ import annotations

import msgspec

from edgewise.api.games import GameAutoscaler, GameAutoscalerStatus, GameType
from edgewise.gameservers.autoscaler.plan import SCALER_CONDITIONS, ScalerPlan
from edgewise.runtime.api import Api
from edgewise.workloads.deadlines import stamp


async def carry_out(api: Api, game: GameType | None, plan: ScalerPlan) -> None:
    """The number is set only if the game is as the plan saw it: between the two a person may
    have set another, which then is what the next plan begins with."""
    if plan.replicas is None or game is None:
        return
    body = {
        "metadata": {"resourceVersion": game.metadata.resource_version},
        "spec": {"fleetSpec": {"scaling": {"replicas": plan.replicas}}},
    }
    await api.patch(game, body)


def status_of(
    scaler: GameAutoscaler, plan: ScalerPlan, current: int | None, now: float
) -> GameAutoscalerStatus:
    old = scaler.status
    return msgspec.structs.replace(
        old,
        observed_generation=scaler.metadata.generation,
        current=current,
        desired=plan.desired,
        last_scaled=stamp(now) if plan.replicas is not None else old.last_scaled,
        conditions=SCALER_CONDITIONS.report(
            old.conditions, plan.findings, generation=scaler.metadata.generation, now=now
        ),
    )
