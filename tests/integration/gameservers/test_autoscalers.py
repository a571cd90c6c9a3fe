"""Autoscalers on a real API server, with a webhook that a person could have written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from edgewise.api.games import (
    Allocation,
    AllocationSpec,
    GameAutoscaler,
    WaitingInLine,
)
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.core import Service
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.testing.eventually import eventually
from tests.integration.gameservers.game_stage import GameStage

EVERY_SECOND = {"type": "fixedinterval", "interval": "1s"}


class Hook:
    """The fake webhook of the first implementation: it answers what it was told to."""

    def __init__(self) -> None:
        self.answer: Any = {"scale": False}
        self.status = 200
        self.delay = 0.0
        self.heard: list[Any] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def scale(self, request: web.Request) -> web.Response:
        self.heard.append(await request.json())
        await asyncio.sleep(self.delay)
        if isinstance(self.answer, str):
            return web.Response(text=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Hook]:
        app = web.Application()
        app.router.add_post("/scale", self.scale)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook().serving() as made:
        yield made


def webhook(**how: Any) -> dict[str, Any]:
    return {"type": "webhook", "webhook": {"path": "/scale", **how}}


async def test_fr5_fr13_fr14_scaling_follows_what_the_webhook_answers_when_it_is_asked(
    games: GameStage, hook: Hook
) -> None:
    """FR5: scaling by external signals. FR13: the webhook is asked again and again. FR14: the
    fleet under the game has the number that was answered."""
    hook.answer = {"scale": True, "desired_replicas": 4}
    async with games.operator():
        await games.game(1)
        await games.scaler(policy=webhook(url=hook.url), sync=EVERY_SECOND)
        await games.wants(4)
        assert hook.heard[0] == {"game_name": "arena", "current_replicas": 1}
        await games.counts("Ready", 4)
        asked = len(hook.heard)
        await eventually(lambda: len(hook.heard) >= asked + 2, within=15)
        assert hook.heard[-1] == {"game_name": "arena", "current_replicas": 4}
        hook.answer = {"scale": True, "desired_replicas": 2}
        await games.wants(2)
        await games.counts("Ready", 2)
        (fleet,) = (await games.fleets()).values()
        assert fleet.spec.scaling.replicas == 2


async def test_whatever_goes_wrong_the_number_stays_and_a_condition_says_why(
    games: GameStage, hook: Hook
) -> None:
    async with games.operator():
        await games.game(2)
        await games.phase("Steady")
        await games.scaler(policy=webhook(url=hook.url), sync=EVERY_SECOND)
        troubles: list[tuple[Any, int, float, str]] = [
            ({"scale": True, "desired_replicas": -1}, 200, 0.0, "Senseless"),
            ({}, 500, 0.0, "Refused"),
            ("<html>", 200, 0.0, "Senseless"),
            ({"scale": True, "desired_replicas": 10**9}, 200, 0.0, "Senseless"),
            ("", 302, 0.0, "Redirected"),
            ({"scale": True, "desired_replicas": 0}, 200, 30.0, "TooLate"),
        ]
        for answer, status, delay, reason in troubles:
            hook.answer, hook.status, hook.delay = answer, status, delay

            async def said(reason: str = reason) -> None:
                found = await games.condition(GameAutoscaler, "scaler", "Answered")
                assert (found.status, found.reason) == ("False", reason)

            await eventually(said, within=15)
            assert (await games.the_game()).spec.fleet_spec.scaling.replicas == 2
        hook.answer, hook.status, hook.delay = {"scale": True, "desired_replicas": 3}, 200, 0.0
        await games.wants(3)


async def test_allocated_servers_are_never_scaled_away(games: GameStage, hook: Hook) -> None:
    hook.answer = {"scale": True, "desired_replicas": 0}
    async with games.operator():
        await games.game(3)
        await games.phase("Steady")
        playing = (await games.servers())[0].metadata.name
        await games.allocate(playing)

        async def known() -> None:
            assert (await games.the_game()).status.allocated == 1

        await eventually(known)
        await games.scaler(policy=webhook(url=hook.url), sync=EVERY_SECOND)
        await games.wants(1)
        await games.counts("Allocated", 1)
        assert (await games.get(playing)).status.shutdown is None


async def test_a_match_in_the_line_starts_a_game_from_zero(games: GameStage) -> None:
    async with games.operator():
        await games.game(0)
        await games.phase("Steady")
        policy = {"type": "buffer", "buffer": {"size": 0}}
        await games.scaler(policy=policy, sync={"type": "onchange", "interval": "1h"})
        spec = AllocationSpec(
            game="arena", match="m", waiting=WaitingInLine(until="2099-01-01T00:00:00Z")
        )
        made = Allocation.named("m.waiting", games.namespace, spec=spec)
        await games.client.create(made)
        await games.wants(1)
        await games.counts("Ready", 1)


async def test_two_for_one_game_and_one_for_none(games: GameStage) -> None:
    policy = {"type": "buffer", "buffer": {"size": 2}}
    async with games.operator():
        await games.scaler("first", policy=policy)

        async def lonely() -> None:
            said = await games.condition(GameAutoscaler, "first", "Active")
            assert said.message == "spec.gameName: there is no GameType arena in this namespace"

        await eventually(lonely)
        await games.game(0)
        await games.wants(2)
        await asyncio.sleep(1.1)  # so that the second is younger to the second
        await games.scaler("second", policy={"type": "buffer", "buffer": {"size": 9}})

        async def told() -> None:
            said = await games.condition(GameAutoscaler, "second", "Active")
            assert "first scales arena already" in said.message

        await eventually(told)
        await games.wants(2)
        await games.delete(GameAutoscaler, "first")
        await games.wants(9)


async def test_a_service_without_such_a_port_is_named(games: GameStage, hook: Hook) -> None:
    hook.answer = {"scale": True, "desired_replicas": 3}
    service = {"selector": {"app": "hook"}, "ports": [{"port": 80, "targetPort": hook.port}]}
    await games.make(Service, "hook", service)
    await games.client.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "hook-1",
                "namespace": games.namespace,
                "labels": {"kubernetes.io/service-name": "hook"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "", "port": hook.port}],
            "endpoints": [
                {
                    "addresses": ["10.255.255.1"],
                    "targetRef": {"kind": "Pod", "name": "hook"},
                }
            ],
        },
        field_manager="somebody",
    )
    assert (await games.client.get(EndpointSlice, "hook-1", games.namespace)).endpoints
    async with games.operator():
        await games.game(1)
        service_policy = webhook(service={"name": "hook", "port": 81})
        await games.scaler(policy=service_policy, sync=EVERY_SECOND)

        async def no_port() -> None:
            said = await games.condition(GameAutoscaler, "scaler", "Answered")
            assert "hook has no TCP port 81" in said.message

        await eventually(no_port)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"policy": webhook(url="ftp://a/")}, "webhook.url must begin with http"),
        ({"policy": webhook(url="http://a/", service={"name": "b"})}, "either url or service"),
        ({"policy": webhook()}, "either url or service"),
        ({"policy": {"type": "buffer", "buffer": {}}, "min": 3, "max": 2}, "min must not be above"),
        ({"policy": {"type": "buffer", "buffer": {}}, "min": -1}, "spec.min"),
        ({"policy": {"type": "magic"}}, "spec.policy.type"),
        ({"policy": {"type": "buffer"}}, "policy.buffer is for type buffer"),
        (
            {"policy": {"type": "buffer", "buffer": {}}, "sync": {"interval": "soon"}},
            "must be a duration",
        ),
    ],
)
async def test_bad_input_is_refused_with_a_sentence(
    games: GameStage, spec: dict[str, Any], field: str
) -> None:
    with pytest.raises(ApiError) as refused:
        await games.scaler(**spec)
    assert field in str(refused.value)


async def test_a_soft_deadline_after_the_hard_one_is_refused(games: GameStage) -> None:
    with pytest.raises(ApiError) as refused:
        await games.game(1, rollout={"softDeadline": "2h", "hardDeadline": "90m"})
    assert "softDeadline must not be later than hardDeadline" in str(refused.value)
