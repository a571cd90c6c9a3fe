"""Carries the plan of a game out. Each write may be the last: the next plan finds what it left."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from edgewise.api.games import Fleet, GameType, Server
from edgewise.gameservers import names
from edgewise.gameservers.gametype.observe import labels_of, wanted_spec
from edgewise.gameservers.gametype.plan import ChangeFleet, CreateFleet, GamePlan
from edgewise.gameservers.outgoing import OUTGOING, OUTGOING_SINCE, Outgoing
from edgewise.gameservers.versions import version_of
from edgewise.kube.errors import NotFound
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.api import Api
from edgewise.runtime.merge_patch import difference
from edgewise.workloads.deadlines import stamp


class GameWriter:
    """Does for one game what its plan says."""

    def __init__(self, api: Api, game: GameType, fleets: dict[str, Fleet], *, now: float) -> None:
        self._api = api
        self._game = game
        self._fleets = fleets
        self._now = now

    async def carry_out(self, plan: GamePlan) -> None:
        # The newest first: what it gets, others may lose.
        if plan.create is not None:
            await self._create(plan.create)
        for change in plan.change:
            await self._change(change)
        for name in plan.end:
            await self._end(name)
        for name in plan.delete:
            await self._api.delete(self._fleets[name])

    async def _create(self, order: CreateFleet) -> None:
        game = self._game
        fleet = Fleet(
            api_version=Fleet.KIND.api_version,
            kind=Fleet.KIND.kind,
            metadata=ObjectMeta(
                name=order.name,
                namespace=game.metadata.namespace,
                labels={**labels_of(game), names.VERSION: version_of(game.spec.fleet_spec.spec)},
                owner_references=[game.owner_reference()],
                finalizers=[names.FLEET_FINALIZER],
            ),
            spec=wanted_spec(game, replicas=order.replicas),
        )
        # If the name is taken, the next look knows by whom.
        await self._api.create(fleet)

    async def _change(self, change: ChangeFleet) -> None:
        fleet, body = self._fleets[change.name], dict[str, Any]()
        if change.outgoing is not None:
            body["metadata"] = {"annotations": self._marks(fleet, change.outgoing)}
        spec: dict[str, Any] = {}
        if change.spec:
            wanted = wanted_spec(self._game, fleet)
            spec = difference(msgspec.to_builtins(fleet.spec), msgspec.to_builtins(wanted))
        if change.replicas is not None:
            spec["scaling"] = {**spec.get("scaling", {}), "replicas": change.replicas}
        if spec:
            body["spec"] = spec
        with contextlib.suppress(NotFound):
            await self._api.patch(fleet, body)

    def _marks(self, fleet: Fleet, outgoing: Outgoing) -> dict[str, str | None]:
        if outgoing is Outgoing.NO:
            return {OUTGOING: None, OUTGOING_SINCE: None}
        since = fleet.metadata.annotations.get(OUTGOING_SINCE) or stamp(self._now)
        return {OUTGOING: outgoing.value, OUTGOING_SINCE: since}

    async def _end(self, name: str) -> None:
        """The hard deadline is over: the servers of this fleet are not asked any more."""
        namespace = self._game.metadata.namespace
        found = await self._api.list(Server, namespace, labels=f"{names.FLEET}={name}")
        fleet = self._fleets[name].metadata.uid
        for server in found.items:
            # Anybody who may write Servers can give one the label.
            owned = any(each.uid == fleet for each in server.metadata.owner_references)
            if owned and not server.spec.allow_force_delete:
                with contextlib.suppress(NotFound):
                    await self._api.patch(server, {"spec": {"allowForceDelete": True}})
