"""A second autoscaler of a game is refused before it is stored; one of no game gets a warning.

Two that are made at the same moment may both pass, and while no operator answers everything does:
the plan looks again, and only the oldest acts. A game may come later, as in a folder of manifests
that is applied in the order of its files, so its autoscaler is not refused.
"""

from __future__ import annotations

from edgewise.api.games import GameAutoscaler, GameType
from edgewise.gameservers.autoscaler.observe import by_game_name, in_age_order
from edgewise.kube.client import Client
from edgewise.kube.errors import Invalid, NotFound
from edgewise.kube.kinds.admission import MatchCondition
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, Verdict
from edgewise.runtime.webhooks.serving import Webhook

GAME_CHANGED = "oldObject == null || object.spec.gameName != oldObject.spec.gameName"


class Rivals:
    def __init__(self, client: Client, scalers: Cache[GameAutoscaler]) -> None:
        self._client = client
        self._scalers = scalers

    def webhook(self) -> Webhook[GameAutoscaler]:
        kind = GameAutoscaler.KIND
        return Webhook(
            name=f"{kind.plural}.{kind.group}",
            kind=GameAutoscaler,
            review=self.review,
            fail_closed=False,
            match_conditions=(MatchCondition(name="the-game-changed", expression=GAME_CHANGED),),
        )

    async def review(self, request: AdmissionRequest[GameAutoscaler]) -> Verdict:
        scaler = request.object
        if scaler is None or scaler.metadata.deleting:
            return Allowed()
        game = scaler.spec.game_name
        key = str(Key(request.namespace, game))
        for known in in_age_order(self._scalers.by(by_game_name, key)):
            if known.metadata.name != request.name and await self._scales(known, game):
                return Denied(
                    f"spec.gameName: GameAutoscaler {known.metadata.name} scales {game} already; "
                    "change that one, or delete it first",
                    code=422,
                )
        return Allowed(warnings=await self._nothing_to_scale(request.namespace, game))

    async def _nothing_to_scale(self, namespace: str, game: str) -> tuple[str, ...]:
        try:
            await self._client.get(GameType, game, namespace)
        except (NotFound, Invalid):  # Invalid: nothing can have that name
            return (
                f"spec.gameName: there is no GameType {game} in the namespace {namespace}; "
                "nothing is scaled until there is one",
            )
        return ()

    async def _scales(self, known: GameAutoscaler, game: str) -> bool:
        """Still: the cache is a little late, and who replaces one deletes it just before."""
        meta = known.metadata
        try:
            found = await self._client.get(GameAutoscaler, meta.name, meta.namespace)
        except NotFound:
            return False
        return found.spec.game_name == game and not found.metadata.deleting
