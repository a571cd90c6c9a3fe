"""What a client is told to measure: the nodes that its placement may choose, asked for rarely."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, Nodes, Target
from edgewise.clusters.connections import Connections
from edgewise.kube.kinds.core import Node, NodeAddress, Secret
from edgewise.placement.hub import half as module
from edgewise.placement.hub.half import PlacementHalf
from edgewise.runtime.errors import Unavailable


def node(name: str, address: str = "10.0.0.1", **labels: str) -> Node:
    made = Node.named(name)
    made.metadata.labels = labels
    made.status.addresses = [NodeAddress(type="InternalIP", address=address)]
    return made


class Cluster:
    """A connection to one cluster, with the nodes that it has."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = list(nodes)
        self.lists = 0
        self.name = "rome"
        self.ping = b""
        self.client = self
        self._closing: list[Any] = []

    async def list(self, kind: type[Node]) -> Any:
        self.lists += 1
        return SimpleNamespace(items=self.nodes)

    async def get(self, kind: type[Secret], name: str, namespace: str) -> Secret:
        made = Secret.named(name, namespace)
        made.data = {"key": b"k" * 32, "token": b"t" * 32, "pingPort": self.ping}
        return made

    # As `Connections` of one cluster.
    def on_close(self, listener: Any) -> None:
        self._closing.append(listener)

    def close(self) -> None:
        for listener in self._closing:
            listener(self)


class Hub:
    def __init__(self, cluster: Cluster) -> None:
        self.now = 1_800_000_000.0
        connections = SimpleNamespace(get=lambda _: cluster, on_close=cluster.on_close)
        self.half = PlacementHalf(cast("Connections", connections), clock=lambda: self.now)

    async def told(self, selector: dict[str, str] | None = None, mode: str = "Probe") -> list[str]:
        spec = LatencyPlacementSpec(
            target=Target(name="web"),
            mode=cast("Any", mode),
            nodes=Nodes(selector=selector or {}),
        )
        placement = LatencyPlacement.named("web", "default", spec=spec)
        key = await self.half.key("rome", placement, "ann", "")
        return [f"{each.node} {each.ping}" for each in key.nodes]


async def test_only_nodes_that_the_selector_fits_are_measured() -> None:
    cluster = Cluster(node("a"), node("b", "10.0.0.2", zone="near"), node("c", "fd00::3", zone="x"))
    assert await Hub(cluster).told({"zone": "near"}) == ["b 10.0.0.2:7777"]
    assert len(await Hub(cluster).told()) == 3


async def test_the_selector_comes_before_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand nodes, those that count may be the last ones."""
    monkeypatch.setattr(module, "MOST_NODES", 2)
    many = [node(f"n{number}") for number in range(50)]
    cluster = Cluster(*many, node("y", zone="near"), node("z", zone="near"))
    assert [each.split()[0] for each in await Hub(cluster).told({"zone": "near"})] == ["y", "z"]
    assert len(await Hub(cluster).told()) == 2


async def test_a_cordoned_node_is_not_measured() -> None:
    closed = node("b")
    closed.spec.unschedulable = True
    assert await Hub(Cluster(node("a"), closed)).told() == ["a 10.0.0.1:7777"]


async def test_an_address_of_ipv6_is_written_as_one() -> None:
    assert await Hub(Cluster(node("c", "fd00::3"))).told() == ["c [fd00::3]:7777"]


async def test_many_clients_cost_one_list_of_nodes_in_half_a_minute() -> None:
    cluster = Cluster(node("a"))
    hub = Hub(cluster)
    for _ in range(100):
        await hub.told()
    assert cluster.lists == 1
    hub.now += module.REMEMBERED_SECONDS + 1
    cluster.nodes.append(node("b"))
    assert len(await hub.told()) == 2
    assert cluster.lists == 2


async def test_what_is_known_of_a_cluster_goes_with_its_connection() -> None:
    cluster = Cluster(node("a"))
    hub = Hub(cluster)
    await hub.told()
    cluster.close()
    await hub.told()
    assert cluster.lists == 2


async def test_sentinels_need_no_addresses() -> None:
    cluster = Cluster(node("a"))
    assert await Hub(cluster).told(mode="Sentinel") == []
    assert cluster.lists == 0


async def test_ping_agents_are_asked_at_the_port_that_the_cluster_names() -> None:
    cluster = Cluster(node("a"))
    cluster.ping = b"17777"
    assert await Hub(cluster).told() == ["a 10.0.0.1:17777"]


async def test_a_port_of_more_digits_than_python_counts_gets_a_sentence_too() -> None:
    cluster = Cluster(node("a"))
    cluster.ping = b"7" * 5000
    with pytest.raises(Unavailable, match="is no port"):
        await Hub(cluster).told()


async def test_many_clients_that_come_at_once_cost_one_list_of_nodes() -> None:
    cluster = Cluster(node("a"))
    hub = Hub(cluster)
    listed = cluster.list

    async def slowly(kind: type[Node]) -> Any:
        await asyncio.sleep(0.01)
        return await listed(kind)

    cast("Any", cluster).list = slowly
    await asyncio.gather(*(hub.told() for _ in range(100)))
    assert cluster.lists == 1


@pytest.mark.parametrize("written", [b"0", b"65536", b"7777\n", b"-1", b"many", "\u0667".encode()])
async def test_what_is_no_port_gets_a_sentence_and_concerns_probes_only(written: bytes) -> None:
    cluster = Cluster(node("a"))
    cluster.ping = written
    with pytest.raises(Unavailable, match=r"`pingPort` of the Secret .* is no port"):
        await Hub(cluster).told()
    assert await Hub(cluster).told(mode="Sentinel") == []
