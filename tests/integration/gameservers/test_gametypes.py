"""Game types on a real API server: one fleet replaces another, and nobody is cut off for it."""

from __future__ import annotations

from edgewise.api.games import Allocation, Fleet, GameType, Server
from edgewise.testing.eventually import eventually
from tests.integration.gameservers.game_stage import GameStage


async def test_fr4_servers_of_the_new_version_are_made_and_old_ones_deleted(
    games: GameStage,
) -> None:
    async with games.operator():
        await games.game(3, "game:1")
        first = (await games.phase("Steady")).status.current_fleet_name
        assert (await games.fleets())[first].metadata.labels["type"] == "arena"
        await games.game(3, "game:2")

        async def moved() -> None:
            game = await games.the_game()
            assert game.status.phase == "Steady"
            assert game.status.current_fleet_name != first
            assert list(await games.fleets()) == [game.status.current_fleet_name]

        await eventually(moved, within=30)
        await games.counts("Ready", 3)


async def test_fr12_one_fleet_follows_another_and_who_plays_plays_on_until_the_game_allows_it(
    games: GameStage,
) -> None:
    async with games.operator():
        await games.game(2, "game:1")
        first = (await games.phase("Steady")).status.current_fleet_name
        playing = [each.metadata.name for each in await games.servers()]
        for name in playing:
            await games.allocate(name)
            await games.becomes("Allocated", name)
        await games.game(2, "game:2")
        # All are allocated, and the new version comes all the same.
        game = await games.phase("Draining")
        assert game.status.current_fleet_name != first
        for name in playing:
            await games.becomes("Draining", name)
            assert not (await games.pod(name)).metadata.deleting
        await games.say(playing[0], allowed=True)
        await games.is_gone(Server, playing[0])
        assert not (await games.pod(playing[1])).metadata.deleting
        await games.say(playing[1], allowed=True)
        await games.is_gone(Fleet, first)
        await games.phase("Steady")
        await games.counts("Ready", 2)


async def test_before_the_soft_deadline_nobody_is_asked_and_after_the_hard_one_all_end(
    games: GameStage,
) -> None:
    async with games.operator():
        rollout = {"softDeadline": "3s", "hardDeadline": "6s"}
        await games.game(1, "game:1", rollout=rollout)
        first = (await games.phase("Steady")).status.current_fleet_name
        (server,) = await games.servers()
        name = server.metadata.name
        await games.allocate(name)
        await games.becomes("Allocated", name)
        await games.game(1, "game:2", rollout=rollout)
        await games.phase("Draining")
        assert (await games.get(name)).status.state == "Allocated"
        await games.becomes("Draining", name)
        assert not (await games.pod(name)).metadata.deleting, "it has 40 minutes"
        await games.is_gone(Server, name)
        await games.is_gone(Fleet, first)
        await games.is_gone(Allocation, name)


async def test_a_version_that_never_becomes_ready_stops_and_a_third_one_goes_on(
    games: GameStage,
) -> None:
    async with games.operator():
        await games.game(2, "game:1", rollout={"progressDeadline": "2s"})
        first = (await games.phase("Steady")).status.current_fleet_name
        games.kubelets.lazy = True
        await games.game(2, "game:2", rollout={"progressDeadline": "2s"})
        game = await games.phase("Stopped")
        assert game.status.current_fleet_name == first
        assert (await games.fleets())[first].spec.scaling.replicas == 2
        said = await games.condition(GameType, "arena", "Progressing")
        assert (said.status, said.reason) == ("False", "ProgressDeadlineExceeded")
        assert "has 0 of 1 ready server after 2s" in said.message
        (second,) = set(await games.fleets()) - {first}
        games.kubelets.lazy = False
        await games.game(2, "game:3")
        await games.is_gone(Fleet, first, within=30)
        await games.is_gone(Fleet, second)
        await games.phase("Steady")
        await games.counts("Ready", 2)


async def test_back_to_the_first_finds_its_fleet(games: GameStage) -> None:
    async with games.operator():
        await games.game(2, "game:1")
        first = (await games.phase("Steady")).status.current_fleet_name
        uid = (await games.fleets())[first].metadata.uid
        games.kubelets.lazy = True
        await games.game(2, "game:2")

        async def two() -> None:
            assert len(await games.fleets()) == 2

        await eventually(two)
        games.kubelets.lazy = False
        await games.game(2, "game:1")

        async def back() -> None:
            fleets = await games.fleets()
            assert list(fleets) == [first]
            assert fleets[first].metadata.uid == uid
            assert (await games.the_game()).status.phase == "Steady"

        await eventually(back, within=20)


async def test_fr8_a_finalizer_keeps_a_game_until_its_servers_have_gone(
    games: GameStage,
) -> None:
    async with games.operator():
        await games.game(2)
        await games.phase("Steady")
        playing = (await games.servers())[0].metadata.name
        await games.allocate(playing)
        await games.becomes("Allocated", playing)
        await games.delete(GameType, "arena")
        await games.becomes("Draining", playing)
        said = await games.condition(GameType, "arena", "Deleting")
        assert "must end first" in said.message
        assert (await games.the_game()).metadata.finalizers
        await games.say(playing, allowed=True)
        await games.is_gone(GameType, "arena")
        assert await games.servers() == []


async def test_scaling_alone_and_a_restart_of_the_operator_make_no_new_fleet(
    games: GameStage,
) -> None:
    async with games.operator():
        await games.game(1)
        await games.phase("Steady")
        (before,) = await games.fleets()
    async with games.operator():
        # As kubectl, an HPA or KEDA set it.
        path = f"{GameType.KIND.path(games.namespace, 'arena')}/scale"
        await games.client.request(
            "PATCH",
            path,
            body=b'{"spec": {"replicas": 3}}',
            content_type="application/merge-patch+json",
        )
        await games.counts("Ready", 3)
        assert list(await games.fleets()) == [before]
