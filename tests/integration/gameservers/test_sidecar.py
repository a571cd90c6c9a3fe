"""The sidecar as a program of its own, and the operator that it speaks to."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edgewise.api.games import Server
from edgewise.gameservers import names
from edgewise.kube.kinds.core import Namespace, Pod, ServiceAccount
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from tests.integration.gameservers.stage import POD, Stage

NOT_YET = (aiohttp.ClientError, OSError)


class Sidecar:
    """One sidecar, and the game that calls it."""

    def __init__(self, folder: Path, operator: int, http: aiohttp.ClientSession) -> None:
        self.port = free_port()
        self._folder = folder
        self._operator = operator
        self._http = http
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edgewise.agents.sidecar"],
            env={
                **os.environ,
                "EDGEWISE_OPERATOR": f"http://127.0.0.1:{self._operator}",
                "EDGEWISE_PORT": str(self.port),
                "EDGEWISE_TOKEN_FILE": str(self._folder / "token"),
                "EDGEWISE_STATE_FILE": str(self._folder / "said.json"),
                "SERVER_NAME": "one",
                **environment,
            },
        )

    def token(self, token: str) -> None:
        (self._folder / "token").write_text(token)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout=10)

    async def get(self, path: str) -> Any:
        async with self._http.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            answer.raise_for_status()
            return await answer.json()

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        async with self._http.post(f"http://127.0.0.1:{self.port}{path}", json=body or {}) as got:
            assert got.status == status, await got.text()
            return await got.json()

    async def up(self) -> None:
        async def answers() -> None:
            await self.get("/state")

        await eventually(answers, not_yet=NOT_YET)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def operator_port() -> int:
    return free_port()


@pytest.fixture
async def sidecar(
    stage: Stage, tmp_path: Path, operator_port: int, http: aiohttp.ClientSession
) -> AsyncIterator[Sidecar]:
    await stage.client.create(ServiceAccount.named("default", stage.namespace))
    made = Sidecar(tmp_path, operator_port, http)
    yield made
    if made._process is not None and made._process.poll() is None:
        made.end(signal.SIGKILL)


async def begun(stage: Stage, sidecar: Sidecar, **spec: Any) -> None:
    await stage.server(**spec)
    await eventually(stage.pod, not_yet=(Exception,))
    sidecar.token(await stage.token("one"))
    sidecar.start()
    await sidecar.up()


async def test_the_life_of_a_game_by_its_sdk(
    stage: Stage, sidecar: Sidecar, operator_port: int
) -> None:
    async with stage.operator(listen=operator_port):
        await begun(stage, sidecar, ready="SDK")
        await sidecar.post("/ready")
        await stage.becomes("Ready")
        await sidecar.post("/reserve", {"seconds": 60})
        await stage.becomes("Reserved")
        await sidecar.post("/ready")
        await stage.becomes("Ready")
        allocation = await stage.allocate("one")
        await stage.becomes("Allocated")

        async def told() -> None:
            found = (await sidecar.get("/state"))["allocation"]
            assert found["uid"] == allocation.metadata.uid
            assert found["match"] == "m"

        await eventually(told, not_yet=(TypeError,))
        await sidecar.post("/acknowledge")
        await sidecar.post("/players", {"players": ["ann", "bob", "ann"]})
        await sidecar.post("/labels", {"map": "desert"})

        async def known() -> None:
            server = await stage.get()
            assert server.status.game is not None
            assert server.status.game.acknowledged == allocation.metadata.uid
            assert server.status.game.players == 2
            assert server.metadata.labels.get("sdk.edgewise.dev/map") == "desert"

        await eventually(known)
        # The end of the match: the Allocation is over, and the server ready for the next one.
        await sidecar.post("/ready")
        await stage.is_gone(type(allocation), "one")
        await stage.becomes("Ready")

        await stage.delete(Server, "one")

        async def asked() -> None:
            said = await sidecar.get("/shutdown")
            assert said["shutdown"] is True
            assert said["why"] == "Deleted"
            assert said["deadline"]

        await eventually(asked, not_yet=(KeyError,))
        assert (await sidecar.get("/allow_delete")) == {"allowed": False}
        await sidecar.post("/allow_delete", {"allowed": True})
        await stage.is_gone(Server, "one")


async def test_a_restarted_sidecar_forgets_nothing_and_an_absent_operator_is_told_later(
    stage: Stage, sidecar: Sidecar, operator_port: int
) -> None:
    async with stage.operator(listen=operator_port):
        await begun(stage, sidecar)
        await stage.becomes("Ready")
    await sidecar.post("/allow_delete", {"allowed": True})
    sidecar.end(signal.SIGKILL)
    sidecar.start()
    await sidecar.up()
    assert (await sidecar.get("/allow_delete")) == {"allowed": True}
    async with stage.operator(listen=operator_port):

        async def known() -> None:
            allowed = (await stage.get()).status.allowed
            assert allowed is not None
            assert allowed.value

        await eventually(known, within=20)


async def test_missed_health_makes_a_server_unhealthy(
    stage: Stage, sidecar: Sidecar, operator_port: int
) -> None:
    async with stage.operator(listen=operator_port):
        await stage.server(health={"period": "200ms", "failures": 2, "initialDelay": "0s"})
        await eventually(stage.pod, not_yet=(Exception,))
        sidecar.token(await stage.token("one"))
        sidecar.start(
            EDGEWISE_HEALTH_PERIOD="0.2", EDGEWISE_HEALTH_FAILURES="2", EDGEWISE_HEALTH_DELAY="0"
        )
        await sidecar.up()
        found = await stage.becomes("Unhealthy")
        assert found.status.shutdown is not None
        assert found.status.shutdown.why == "Unhealthy"


async def test_a_game_that_shuts_itself_down_is_ended(
    stage: Stage, sidecar: Sidecar, operator_port: int
) -> None:
    async with stage.operator(listen=operator_port):
        await begun(stage, sidecar)
        await stage.becomes("Ready")
        await sidecar.post("/shutdown", {"shutdown": True})
        await stage.becomes("Shutdown")


async def test_a_pod_cannot_speak_for_another_server(
    stage: Stage, sidecar: Sidecar, operator_port: int, http: aiohttp.ClientSession
) -> None:
    url = f"http://127.0.0.1:{operator_port}/gameservers/v1/said"

    async def say(token: str, body: Any = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with http.put(url, json=body or {"ready": True}, headers=headers) as answer:
            return answer.status, await answer.text()

    async with stage.operator(listen=operator_port):
        await stage.server()
        await stage.becomes("Ready")
        good = await stage.token("one")
        assert await say(good) == (204, "")
        status, text = await say(await stage.token("one", audience="somebody-else"))
        assert (status, "meant for somebody else" in text) == (401, True)
        status, text = await say("a.b.c")
        assert status == 401
        head, _, rest = good.partition(".")
        body, _, signature = rest.partition(".")
        status, text = await say(f"{head}.{body}.{signature[:-6]}AAAAAA")
        assert (status, "no valid signature" in text) == (401, True)
        status, text = await say(good, {"ready": True, "stateOfOthers": 1})
        assert (status, "stateOfOthers" in text) == (400, True)
        # One who may create pods gives his own the marks of the pod of the server.
        server = await stage.get()
        spec = {**POD, "serviceAccountName": "default"}
        impostor = Pod.named("impostor", stage.namespace, spec=spec)
        impostor.metadata.labels = {names.PROTECTED: "one"}
        impostor.metadata.owner_references = [server.owner_reference()]
        await stage.client.create(impostor)

        async def refused() -> None:
            status, text = await say(await stage.token_of("impostor"))
            assert (status, "not the pod of a game server" in text) == (403, True)

        await eventually(refused)
        assert await say(good) == (204, "")
        # A pod of the same name in another namespace.
        elsewhere = f"{stage.namespace}-2"
        await stage.client.create(Namespace.named(elsewhere))
        await stage.client.create(ServiceAccount.named("default", elsewhere))
        twin = Pod.named("one-pod", elsewhere, spec=spec)
        await stage.client.create(twin)
        status, text = await say(await stage.token_of("one-pod", namespace=elsewhere))
        assert (status, "not the pod of a game server" in text) == (403, True)
        # The pod of the token is replaced by another one of the same name.
        await stage.kubelets.set_pod("one-pod", ready=False, phase="Failed")
        first = (await stage.pod()).metadata.uid

        async def another() -> None:
            assert (await stage.pod()).metadata.uid != first

        await eventually(another, within=15, not_yet=(Exception,))
        await stage.becomes("Ready")
        status, text = await say(good)
        assert (status, "not the pod of a game server" in text) == (403, True)


MISTAKES = {
    "a word that is no truth": ("/allow_delete", {"allowed": "yes"}, "allowed must be true"),
    "a time that is no number": ("/reserve", {"seconds": "long"}, "seconds must be a number"),
    "a time below zero": ("/reserve", {"seconds": -1}, "seconds must be above 0"),
    "players that are no names": ("/players", {"players": [1]}, "a player must be a name"),
    "a label that Kubernetes would refuse": ("/labels", {"a b": "c"}, "cannot be the name"),
    "an acknowledgement of nothing": ("/acknowledge", {}, "no allocation to acknowledge"),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A sidecar without an operator: local mode."""
    folder, port = tmp_path_factory.mktemp(secrets.token_hex(4)), free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "edgewise.agents.sidecar"],
        env={
            **os.environ,
            "EDGEWISE_PORT": str(port),
            "EDGEWISE_STATE_FILE": str(folder / "said.json"),
        },
    )
    yield port
    process.terminate()
    assert process.wait(timeout=10) == 0


@pytest.mark.parametrize("sentence", MISTAKES)
async def test_the_sdk_refuses(alone: int, http: aiohttp.ClientSession, sentence: str) -> None:
    path, body, words = MISTAKES[sentence]

    async def refused() -> None:
        async with http.post(f"http://127.0.0.1:{alone}{path}", json=body) as answer:
            assert answer.status == 400
            assert words in (await answer.json())["error"]

    await eventually(refused, not_yet=NOT_YET)


async def test_the_sidecar_is_small_and_listens_on_loopback_only(
    alone: int, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def answers() -> None:
        async with http.get(f"http://127.0.0.1:{alone}/state") as answer:
            assert answer.status == 200

    await eventually(answers, not_yet=NOT_YET)
    lines = await asyncio.to_thread(Path("/proc/net/tcp").read_text)
    listening = [line.split()[1] for line in lines.splitlines()[1:] if line.split()[3] == "0A"]
    assert [each for each in listening if each.endswith(f":{alone:04X}")] == [
        f"0100007F:{alone:04X}"
    ]
