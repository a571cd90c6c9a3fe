"""What was asked for of servers, on real pods: each sentence by its number."""

from __future__ import annotations

import pytest

from edgewise.api.games import GameType, Server
from edgewise.gameservers import names
from edgewise.kube.kinds.core import Pod
from edgewise.testing.eventually import eventually
from tests.e2e.gameservers.conftest import NAMESPACE, Games, game
from tests.e2e.gameservers.test_protection import plays

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]


async def test_fr1_fr2_fr3_fr6_a_server_is_protected_until_its_game_says_otherwise(
    games: Games,
) -> None:
    server = await games.server("required", deletion={"stabilization": "1s"})
    # FR3: a sidecar with a REST interface is in its pod.
    pod = await games.pod("required")
    assert [each["name"] for each in pod.spec["initContainers"]] == ["edgewise-sidecar"]
    assert (await games.sdk("required", "/shutdown"))["shutdown"] is False
    # FR6: a finalizer holds the Server; its pod is kept by the policy, which a finalizer cannot.
    assert server.metadata.finalizers == [names.SERVER_FINALIZER]
    status, text = await games.kubectl("delete", "pod", "required-pod", "--wait=false")
    assert status != 0
    assert "delete the Server instead" in text
    # FR1: it is not deleted before its time, and ends cleanly.
    await games.kubectl("delete", "server", "required", "--wait=false")

    async def asked() -> None:
        assert (await games.sdk("required", "/shutdown"))["shutdown"] is True

    await eventually(asked, within=30)
    assert await plays(server)
    # FR2: the game decides; also that it may not, after all.
    await games.sdk("required", "/allow_delete", {"allowed": False})
    assert (await games.sdk("required", "/allow_delete"))["allowed"] is False
    assert await plays(server)
    await games.sdk("required", "/allow_delete", {"allowed": True})
    await games.is_gone(Server, "required")
    await games.is_gone(Pod, "required-pod")


async def test_fr4_a_new_version_comes_without_a_moment_in_which_nobody_can_play(
    games: Games,
) -> None:
    spec = game(deletion={"idle": "Allow"})
    await games.make(GameType, "rally", {"fleetSpec": {"scaling": {"replicas": 1}, "spec": spec}})

    async def ready() -> list[Server]:
        found = (await games.client.list(Server, NAMESPACE, labels=f"{names.TYPE}=rally")).items
        return [each for each in found if each.status.state == "Ready"]

    await eventually(ready, within=60)
    (first,) = await ready()
    spec["pod"]["containers"][0]["env"] = [{"name": "VERSION", "value": "2"}]
    await games.make(GameType, "rally", {"fleetSpec": {"scaling": {"replicas": 1}, "spec": spec}})

    async def replaced() -> None:
        now = await ready()
        assert now, "there is always one that is ready"
        assert [each.metadata.uid for each in now] != [first.metadata.uid]
        assert len(now) == 1

    seen: list[int] = []

    async def moved() -> bool:
        now = await ready()
        seen.append(len(now))
        return bool(now) and all(each.metadata.uid != first.metadata.uid for each in now)

    await eventually(moved, within=60)
    assert min(seen) >= 1, seen
    await eventually(replaced, within=60)
    (second,) = await ready()
    assert await plays(second)
    await games.client.delete(GameType, "rally", NAMESPACE)
    await games.is_gone(GameType, "rally")
