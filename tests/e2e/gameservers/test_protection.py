"""What tries to end a game on real nodes, and does not before the game allows it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from edgewise.api.games import Server
from edgewise.kube.kinds.core import Node, Pod
from edgewise.testing.eventually import eventually
from tests.e2e.gameservers.conftest import NAMESPACE, Games

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]


def said_by(address: str, port: int, words: bytes = b"who") -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1.0)
        for _ in range(5):
            client.sendto(words, (address, port))
            try:
                return client.recv(1024)
            except TimeoutError:
                continue
    return b""


async def plays(server: Server) -> bool:
    found = await asyncio.to_thread(said_by, server.status.address, server.status.ports[0].port)
    return found == server.metadata.name.encode()


async def test_players_reach_a_server_at_the_port_of_its_node(games: Games) -> None:
    dynamic = await games.server("dynamic")
    through = await games.server("through", ports=[{"name": "play", "policy": "Passthrough"}])
    assert await plays(dynamic)
    assert await plays(through)
    state = await games.sdk("dynamic", "/state")
    assert state["ports"] == {"play": dynamic.status.ports[0].port}


async def test_a_game_goes_on_whatever_somebody_does_until_it_allows_its_end(
    games: Games,
) -> None:
    server = await games.server("match")
    await games.allocate("match")
    await games.becomes("match", "Allocated")
    pod = (await games.pod("match")).metadata.uid

    for arguments in (
        ("delete", "pod", "match-pod", "--wait=false"),
        ("delete", "pod", "match-pod", "--grace-period=0", "--force", "--wait=false"),
        ("delete", "pods", "--all", "--wait=false"),
        (
            "drain",
            server.status.node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--force",
            "--timeout=3s",
        ),
        (
            "drain",
            server.status.node,
            "--ignore-daemonsets",
            "--force",
            "--delete-emptydir-data",
            "--disable-eviction",
            "--timeout=3s",
        ),
    ):
        status, text = await games.kubectl(*arguments)
        assert status != 0, f"{arguments} was let through: {text}"
        assert "local storage" not in text
    await games.client.patch(
        Node,
        server.status.node,
        body={"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}},
    )
    await games.kubectl("delete", "server", "match", "--cascade=foreground", "--wait=false")
    asked = await games.becomes("match", "Draining")
    assert asked.metadata.deleting
    await asyncio.sleep(3)  # time for whoever wants to delete it after all
    assert await plays(server)
    assert (await games.pod("match")).metadata.uid == pod

    async def told() -> None:
        assert (await games.sdk("match", "/shutdown"))["shutdown"] is True

    await eventually(told, within=20)
    await games.sdk("match", "/allow_delete", {"allowed": True})
    await games.is_gone(Server, "match")
    await games.is_gone(Pod, "match-pod")


async def test_a_drained_node_becomes_empty_as_games_allow(games: Games) -> None:
    server = await games.server("mover")
    node = server.status.node
    drain = asyncio.create_task(
        games.kubectl(
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--force",
            "--timeout=60s",
            timeout=90,
        )
    )
    await games.becomes("mover", "Draining")
    assert await plays(server)
    await games.sdk("mover", "/allow_delete", {"allowed": True})
    status, text = await drain
    assert status == 0, text
    moved = await games.becomes("mover", "Ready")
    assert moved.status.node != node


async def test_while_the_operator_is_away_nothing_is_lost_and_it_is_told_later(
    games: Games,
) -> None:
    server = await games.server("alone")
    await games.platform.operator.stop()
    try:
        status, _ = await games.kubectl("delete", "pod", "alone-pod", "--wait=false")
        assert status != 0
        await games.kubectl("delete", "server", "alone", "--wait=false")
        await games.sdk("alone", "/allow_delete", {"allowed": True})
        # The sidecar is killed, too: what the game said is in a file of the pod.
        await games.kubectl(
            "exec", "alone-pod", "-c", "edgewise-sidecar", "--", "sh", "-c", "kill -9 1"
        )
        assert await plays(server)
    finally:
        await games.platform.operator.start()
    await games.is_gone(Server, "alone")


async def test_a_crash_is_answered_with_another_pod_at_once(games: Games) -> None:
    server = await games.server("phoenix")
    pod = (await games.pod("phoenix")).metadata.uid
    await asyncio.to_thread(said_by, server.status.address, server.status.ports[0].port, b"crash")

    async def another() -> None:
        found = await games.client.get(Pod, "phoenix-pod", NAMESPACE)
        assert found.metadata.uid != pod

    await eventually(another, within=30, not_yet=(Exception,))
    again = await games.becomes("phoenix", "Ready")
    assert await plays(again)
