"""The stage of game servers, with game types and autoscalers on it."""

from __future__ import annotations

from typing import Any

from edgewise.api.games import Fleet, GameAutoscaler, GameType, Server
from edgewise.gameservers import names
from edgewise.gameservers.autoscaler.controller import GameAutoscalerController
from edgewise.gameservers.autoscaler.webhook import Webhooks
from edgewise.gameservers.fleet.controller import FleetController
from edgewise.gameservers.gametype.controller import GameTypeController
from edgewise.gameservers.server.controller import ServerController
from edgewise.kube.errors import NotFound
from edgewise.runtime.manager import Election, Manager
from edgewise.testing.eventually import eventually
from tests.integration.gameservers.stage import Stage


class GameStage(Stage):
    local_webhooks = True

    def manager(self, *, election: Election | None = None) -> Manager:
        webhooks = Webhooks(self._operator, local=self.local_webhooks, patience=2.0)
        controllers = [
            ServerController(self.settings),
            FleetController(),
            GameTypeController(),
            GameAutoscalerController(webhooks),
        ]
        return Manager(self._operator, controllers, election=election)

    async def game(self, replicas: int = 2, image: str = "game:1", **more: Any) -> None:
        rollout = more.pop("rollout", {})
        server = {
            "pod": {"containers": [{"name": "game", "image": image}]},
            "deletion": {"idle": "Allow"},
            **more.pop("server", {}),
        }
        fleet = {"scaling": {"replicas": replicas}, "spec": server, **more}
        await self.make(GameType, "arena", {"fleetSpec": fleet, "rollout": rollout})

    async def scaler(self, name: str = "scaler", **spec: Any) -> None:
        await self.make(GameAutoscaler, name, {"gameName": "arena", **spec})

    async def the_game(self) -> GameType:
        return await self.client.get(GameType, "arena", self.namespace)

    async def fleets(self) -> dict[str, Fleet]:
        found = (await self.client.list(Fleet, self.namespace)).items
        return {each.metadata.name: each for each in found}

    async def phase(self, phase: str, *, within: float = 20.0) -> GameType:
        async def there() -> None:
            game = await self.the_game()
            assert game.status.observed_generation == game.metadata.generation
            assert game.status.phase == phase, game.status

        await eventually(there, within=within, not_yet=(NotFound,))
        return await self.the_game()

    async def wants(self, replicas: int, *, within: float = 15.0) -> None:
        async def there() -> None:
            game = await self.the_game()
            scalers = (await self.client.list(GameAutoscaler, self.namespace)).items
            said = [each.status for each in scalers]
            assert game.spec.fleet_spec.scaling.replicas == replicas, said

        await eventually(there, within=within)

    async def condition(self, kind: type[GameType | GameAutoscaler], name: str, type_: str) -> Any:
        found = await self.client.get(kind, name, self.namespace)
        fitting = [each for each in found.status.conditions if each.type == type_]
        assert fitting, found.status
        return fitting[0]

    async def servers_of(self, fleet: str) -> list[Server]:
        found = await self.client.list(Server, self.namespace, labels=f"{names.FLEET}={fleet}")
        return found.items

    async def clear(self) -> None:
        for kind in (GameAutoscaler, GameType):
            for each in (await self.client.list(kind, self.namespace)).items:
                await self.client.patch(
                    kind,
                    each.metadata.name,
                    self.namespace,
                    body={"metadata": {"finalizers": None}},
                )
                await self.client.delete(kind, each.metadata.name, self.namespace)
        await super().clear()
