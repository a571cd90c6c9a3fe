"""`edgewise placement` beside a real API server: what each command prints, also as JSON."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

import pytest
from typer.testing import CliRunner

from edgewise.api.installation import install
from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, Target
from edgewise.cli.placement.commands import NoSuchPlacement, app
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from tests.integration.conftest import ApiServer

SHARES = "api-server"

STATUS: dict[str, Any] = {
    "phase": "Converged",
    "message": "n1 at 10 ms",
    "round": 2,
    "moves": 1,
    "search": {"number": 1, "beganAt": "2026-01-01T00:00:00Z", "endedAt": "2026-01-01T00:00:10Z"},
    "visited": [{"node": "n2", "why": "Worse"}],
    "ranking": [{"node": "n1", "rttMs": 10.0, "p95Ms": 12.0, "clients": 3}],
}


class Commands:
    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self._where = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]

    async def say(self, *arguments: str) -> str:
        """What a command prints. It has an event loop of its own, so it runs beside ours."""

        def run() -> str:
            done = CliRunner().invoke(app, [*arguments, *self._where], catch_exceptions=False)
            assert done.exit_code == 0, done.output
            return done.stdout

        return await asyncio.to_thread(run)

    async def lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in (await self.say(*arguments, "--json")).splitlines()]


@pytest.fixture
async def commands(client: Client, api_server: ApiServer) -> Commands:
    await install(client, (LatencyPlacement,))
    namespace = f"cli-{secrets.token_hex(3)}"
    await client.create(Namespace.named(namespace))
    spec = LatencyPlacementSpec(target=Target(name="web"))
    for name, status in (("web", STATUS), ("api", {"phase": "Searching"})):
        await client.create(LatencyPlacement.named(name, namespace, spec=spec))
        await client.patch(
            LatencyPlacement, name, namespace, body={"status": status}, subresource="status"
        )
    return Commands(str(api_server.kubeconfig), namespace)


async def test_each_command_says_it_in_words_and_as_json(commands: Commands) -> None:
    head, *rows = (await commands.say("list")).splitlines()
    assert head.split()[:4] == ["NAME", "TARGET", "MODE", "PHASE"]
    assert [row.split()[0] for row in rows] == ["api", "web"]
    assert [each["name"] for each in await commands.lines("list")] == ["api", "web"]

    shown = await commands.say("show", "web")
    assert shown.startswith("web: Converged, search 1, round 2, 1 moves")
    assert "10.0 ms" in shown
    (told,) = await commands.lines("show", "web")
    assert told["status"]["ranking"][0]["rttMs"] == 10.0
    assert told["spec"]["target"]["name"] == "web"

    assert "Every node was looked at (n1 at 10 ms)." in await commands.say("explain", "web")
    (why,) = await commands.lines("explain", "web")
    assert [(each["what"], each["why"]) for each in why["nodes"]] == [("n2", "Worse")]


async def test_watch_says_how_it_stands_and_each_change_until_the_search_has_ended(
    commands: Commands, client: Client
) -> None:
    namespace = commands._where[1].partition("=")[2]
    watching = asyncio.create_task(commands.lines("watch", "api", "--until-ended"))

    async def say(**status: Any) -> None:
        body = {"status": status}
        await client.patch(LatencyPlacement, "api", namespace, body=body, subresource="status")
        await asyncio.sleep(0.5)

    await asyncio.sleep(2)  # until it watches
    for number in (1, 2):
        await say(round=number)
    await say(phase="Converged", search={"endedAt": "2026-01-01T00:00:10Z"})
    told = await asyncio.wait_for(watching, 30)
    rounds = [each["status"].get("round", 0) for each in told]
    assert rounds == sorted(rounds)
    assert (rounds[-1], told[-1]["status"]["phase"]) == (2, "Converged")
    assert len(told) > 1, "only how it ended was said"


async def test_of_an_unknown_name_the_known_ones_are_said(commands: Commands) -> None:
    for command in ("show", "explain", "watch"):
        with pytest.raises(NoSuchPlacement, match=r"no LatencyPlacement 'nothing' .*: api, web"):
            await commands.say(command, "nothing")
