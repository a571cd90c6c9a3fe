"""A domain that nobody built in: handed to the programs as an argument, it is served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from edgewise import operator
from edgewise.domain import Domain, all_kinds, install_domains
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, NotFound
from edgewise.kube.kinds.admission import ValidatingWebhookConfiguration
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.operator import WEBHOOKS, Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.runtime.webhooks.serving import Target
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from edgewise.uninstall import Uninstaller
from tests.integration.domain.toy import (
    BINDING,
    PUZZLES,
    Puzzle,
    Toy,
    ToySpec,
    Workshop,
)


class Running:
    """An operator in this process."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.port, self.webhook_port = free_port(), free_port()

    @contextlib.asynccontextmanager
    async def operator(self, *domains: Domain, **options: Any) -> AsyncIterator[None]:
        told = Options(
            namespace=self.namespace, listen=Listen(port=self.port), gateways=(), **options
        )
        running = asyncio.create_task(run_operator(self.client, told, domains))
        try:
            await eventually(self._listens, within=20, not_yet=(aiohttp.ClientError,))
            yield
            assert not running.done(), running
        finally:
            if not running.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(running, 30)

    async def _listens(self) -> bool:
        await self.ask("/healthz")
        return True

    async def ask(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> bool:
        return (await self.ask("/readyz"))[0] == 200

    async def toy(self, name: str, size: int, kind: Any = Toy) -> None:
        await self.client.create(kind.named(name, self.namespace, spec=ToySpec(size=size)))

    async def size(self, name: str, kind: Any = Toy) -> int:
        found = await self.client.get(kind, name, self.namespace)
        return int(found.status.size)


@pytest.fixture
async def rig(client: Client, namespace: str) -> AsyncIterator[Running]:
    yield Running(client, namespace)
    for kind, name in (
        (ValidatingWebhookConfiguration, WEBHOOKS),
        (type(BINDING), BINDING.metadata.name),
    ):
        with contextlib.suppress(NotFound):
            await client.delete(kind, name)


@pytest.fixture
async def without_puzzles(client: Client) -> None:
    """Its CRD is not there, whatever ran before."""
    name = f"{Puzzle.KIND.plural}.{Puzzle.KIND.group}"
    with contextlib.suppress(NotFound):
        await client.delete(CustomResourceDefinition, name)

    async def gone() -> bool:
        try:
            await client.request("GET", Puzzle.KIND.path())
        except NotFound:
            return True
        return False

    await eventually(gone, within=20)
    client._discovery._known.clear()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "LEFT_OUT_EVERY", 0.2)
    monkeypatch.setattr(operator, "WAITED_FOR_EVERY", 0.2)


async def test_all_parts_of_a_domain_are_served(rig: Running) -> None:
    shop = Workshop()
    await install_domains(rig.client, [shop.domain], all_kinds([shop.domain]))
    target = Target(url=f"https://127.0.0.1:{rig.webhook_port}")
    async with rig.operator(
        shop.domain,
        flags={"toy-factor": 3},
        webhooks=target,
        webhook_port=rig.webhook_port,
    ):
        await eventually(rig.ready, within=20)

        async def reviewed() -> bool:
            try:
                await rig.toy("seven", 7)
            except ApiError as error:
                return "7 brings bad luck; choose 6 or 8" in str(error)
            await rig.client.delete(Toy, "seven", rig.namespace)  # it was too early
            return False

        await eventually(reviewed, within=20)
        await rig.toy("ball", 4)

        async def painted() -> None:
            found = await rig.client.get(Toy, "ball", rig.namespace)
            assert (found.status.size, found.status.woken) == (12, True)

        await eventually(painted, within=20)
        assert await rig.ask("/toys/count") == (200, '{"toys": 1}')
        assert sorted(shop.running) == ["leader", "replica"]
    assert shop.running == []


async def test_what_one_answer_sets_no_later_request_carries(rig: Running) -> None:
    """Pods, gateways and webhooks are called by one operator: none may mark it for another."""
    heard: list[str] = []

    async def marks(request: web.BaseRequest) -> web.Response:
        heard.append(request.headers.get("Cookie", ""))
        answer = web.Response()
        answer.set_cookie("who", "a-pod")
        return answer

    shop = Workshop()
    await install_domains(rig.client, [shop.domain], all_kinds([shop.domain]))
    async with rig.operator(shop.domain), RawTestServer(marks, host="localhost") as pod:
        assert shop.http is not None
        for _ in range(2):
            async with shop.http.get(pod.make_url("/")) as answer:
                assert answer.status == 200
    assert heard == ["", ""]


async def test_its_policy_is_installed_with_the_crds_and_needs_no_operator(rig: Running) -> None:
    shop = Workshop()
    await install_domains(rig.client, [shop.domain], all_kinds([shop.domain]))

    async def refused() -> bool:
        try:
            await rig.toy(f"big-{os.urandom(3).hex()}", 11)
        except ApiError as error:
            return "no child lifts more than ten" in str(error)
        return False  # the API server takes a moment to see a policy

    await eventually(refused, within=20)


async def test_a_domain_that_is_named_waits_for_its_crds_and_says_so(
    rig: Running, without_puzzles: None, soon: None, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Workshop()
    await install_domains(rig.client, [shop.domain], all_kinds([shop.domain]))
    sentence = "puzzles waits for its CRDs: puzzles.puzzles.test.edgewise.dev"
    caplog.set_level(logging.WARNING)
    async with rig.operator(shop.domain, PUZZLES, domains=("toys", "puzzles")):
        # Its neighbour does not wait.
        await rig.toy("cart", 5)

        async def painted() -> None:
            assert await rig.size("cart") == 10

        await eventually(painted, within=20)
        status, text = await rig.ask("/readyz")
        assert (status, f"domains: {sentence}" in text) == (503, True)
        assert sentence in caplog.text

        await install_domains(rig.client, [PUZZLES], PUZZLES.kinds)
        await eventually(rig.ready, within=30, not_yet=(aiohttp.ClientError,))
        await rig.toy("edge", 9, Puzzle)

        async def solved() -> None:
            assert await rig.size("edge", Puzzle) == 9

        await eventually(solved, within=20)


async def test_one_that_is_not_named_is_left_out_until_its_crds_appear(
    rig: Running, without_puzzles: None, soon: None, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Workshop()
    await install_domains(rig.client, [shop.domain], all_kinds([shop.domain]))
    caplog.set_level(logging.WARNING)
    async with rig.operator(shop.domain, PUZZLES):
        await eventually(rig.ready, within=20)
        assert "puzzles is left out until its CRDs are there" in caplog.text

        await install_domains(rig.client, [PUZZLES], PUZZLES.kinds)
        await rig.toy("corner", 8, Puzzle)

        async def solved() -> None:
            assert await rig.size("corner", Puzzle) == 8

        await eventually(solved, within=30)
        await eventually(rig.ready, within=20, not_yet=(aiohttp.ClientError,))


async def test_with_none_of_them_there_is_nothing_to_be_ready_for(
    rig: Running, without_puzzles: None
) -> None:
    async with rig.operator(PUZZLES):
        status, text = await rig.ask("/readyz")
        assert status == 503
        assert "puzzles is left out until its CRDs are there" in text


async def test_a_signal_ends_an_operator_that_has_not_begun_yet(
    rig: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hang in its first question to an API server."""
    asked = asyncio.Event()

    async def never(*_: Any) -> dict[str, list[str]]:
        asked.set()
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(operator, "absent", never)
    running = asyncio.create_task(run_operator(rig.client, Options(), [PUZZLES]))
    await asyncio.wait_for(asked.wait(), 10)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 10)


async def test_its_finalizers_are_taken_off_before_the_chart_goes(rig: Running) -> None:
    shop = Workshop()
    await install_domains(rig.client, [shop.domain], all_kinds([shop.domain]))
    async with rig.operator(shop.domain):
        await rig.toy("held", 1)

        async def held() -> None:
            found = await rig.client.get(Toy, "held", rig.namespace)
            assert found.metadata.finalizers

        await eventually(held, within=20)
    said: list[str] = []
    await Uninstaller(rig.client, rig.namespace, said.append, domains=[shop.domain]).run(
        delete_sessions=False
    )
    assert (await rig.client.get(Toy, "held", rig.namespace)).metadata.finalizers == []
    assert any("toys are free to be deleted" in line for line in said)
