"""What tries to end a game on real nodes, and does not before the game allows it."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket

import pytest

from edgewise.api.games import Server
from edgewise.gameservers import names
from edgewise.kube.kinds.core import ConfigMap, Namespace, Node, Pod, ServiceAccount
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.testing.eventually import eventually
from tests.e2e.gameservers.conftest import NAMESPACE, Games

# `make chaos` waits for longer than a token of a pod usually lives.
LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
LONG_WAIT = 610 if LONG else 0

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


def drain(node: str, *more: str) -> tuple[str, ...]:
    return ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", *more)


async def refuse_everything(games: Games, server: Server) -> None:
    """All that ends an ordinary pod, and not one of these. Its node is tainted afterwards."""
    pod, node = names.pod_of(server.metadata.name), server.status.node
    for arguments in (
        ("delete", "pod", pod, "--wait=false"),
        ("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false"),
        ("delete", "pods", "--all", "--wait=false"),
        drain(node, "--timeout=3s"),
        drain(node, "--timeout=3s", "--disable-eviction"),
    ):
        status, text = await games.kubectl(*arguments)
        assert status != 0, f"{arguments} was let through: {text}"
        assert "local storage" not in text
    await preempt_in_vain(games, node)
    taints = [{"key": "maintenance", "effect": "NoExecute"}]
    await games.client.patch(Node, node, body={"spec": {"taints": taints}})


async def preempt_in_vain(games: Games, node: str) -> None:
    """A pod that would need the room of all others on the node."""
    cpu = (await games.client.get(Node, node)).status.allocatable["cpu"]
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        # The node is cordoned by now, which would be reason enough to wait.
        "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
        "containers": [
            {
                "name": "greedy",
                "image": PYTHON_IMAGE,
                "resources": {"requests": {"cpu": cpu}},
            }
        ],
    }
    await games.client.create(Pod.named("greedy", NAMESPACE, spec=spec))

    async def waits() -> None:
        found = await games.client.get(Pod, "greedy", NAMESPACE)
        said = [each.message for each in found.status.conditions if each.type == "PodScheduled"]
        assert said, found.status
        assert "Insufficient cpu" in said[0]
        assert "preemption" in said[0]

    try:
        await eventually(waits, within=30)
    finally:
        await games.client.delete(Pod, "greedy", NAMESPACE, grace_seconds=0)


async def test_players_reach_a_server_at_the_port_of_its_node(games: Games) -> None:
    dynamic = await games.server("dynamic")
    through = await games.server("through", ports=[{"name": "play", "policy": "Passthrough"}])
    assert await plays(dynamic)
    assert await plays(through)
    state = await games.sdk("dynamic", "/state")
    assert state["ports"] == {"play": dynamic.status.ports[0].port}
    # Its SDK answers nobody outside its pod.
    inside = (await games.pod("dynamic")).status.pod_ip
    code = f"import socket; print(socket.socket().connect_ex(({inside!r}, 8080)))"
    assert int(await games.inside("through", code)) == errno.ECONNREFUSED


async def test_a_game_goes_on_whatever_somebody_does_until_it_allows_its_end(
    games: Games,
) -> None:
    server = await games.server("match")
    await games.allocate("match")
    await games.becomes("match", "Allocated")
    pod = (await games.pod("match")).metadata.uid

    await refuse_everything(games, server)
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
    draining = asyncio.create_task(games.kubectl(*drain(node, "--timeout=60s"), timeout=90))
    await games.becomes("mover", "Draining")
    assert await plays(server)
    await games.sdk("mover", "/allow_delete", {"allowed": True})
    status, text = await draining
    assert status == 0, text
    moved = await games.becomes("mover", "Ready")
    assert moved.status.node != node


async def test_while_the_operator_is_away_nothing_is_lost_and_it_is_told_later(
    games: Games,
) -> None:
    server = await games.server("alone")
    pod = (await games.pod("alone")).metadata.uid
    async with games.without_operator():
        await refuse_everything(games, server)
        await games.kubectl("delete", "server", "alone", "--cascade=foreground", "--wait=false")
        # The sidecar is killed, too: what the game said is in a file of the pod.
        await games.sdk("alone", "/players", {"players": ["ann"]})
        await games.kubectl(
            "exec", "alone-pod", "-c", "edgewise-sidecar", "--", "sh", "-c", "kill -9 1"
        )
        assert await plays(server)
    asked = await games.becomes("alone", "Draining")
    assert asked.metadata.deleting

    async def told() -> None:
        found = await games.client.get(Server, "alone", NAMESPACE)
        assert found.status.game is not None
        assert found.status.game.players == 1

    await eventually(told, within=60)
    assert await plays(server)
    assert (await games.pod("alone")).metadata.uid == pod
    await games.sdk("alone", "/allow_delete", {"allowed": True})
    await games.is_gone(Server, "alone")


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_a_namespace_that_is_deleted_waits_for_its_games(games: Games) -> None:
    """Its ServiceAccounts go first: what games say is believed all the same."""
    name = f"ending-{secrets.token_hex(3)}"
    await games.client.create(Namespace.named(name))
    server = await games.server("match", name)
    await games.allocate("match", name)
    await games.server("short", name, timeout="1s")
    pod = (await games.pod("match", name)).metadata.uid
    async with games.without_operator():
        await games.client.delete(Namespace, name)
        await games.is_gone(ServiceAccount, "default", namespace=name)
        assert await plays(server)
    asked = await games.becomes("match", "Draining", namespace=name)
    assert asked.status.shutdown is not None
    assert asked.status.shutdown.why == "NamespaceDeleted"
    await games.is_gone(Server, "short", namespace=name)  # its time was over

    async def why() -> None:
        found = await games.client.get(Namespace, name)
        said = {each.type: each.message for each in found.status.conditions}
        assert "servers.games.edgewise.dev" in said.get("NamespaceContentRemaining", "")

    await eventually(why, within=60)
    await asyncio.sleep(LONG_WAIT)
    assert await plays(server)
    assert (await games.pod("match", name)).metadata.uid == pod
    await games.sdk("match", "/allow_delete", {"allowed": True}, name)
    await games.is_gone(Namespace, name, within=90, namespace="")


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
    logs = await games.client.get(ConfigMap, "phoenix-failed-starts", NAMESPACE)
    assert list(logs.data.values()) == ["the dragon won\n"]
