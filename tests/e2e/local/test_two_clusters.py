"""Clusters side by side: apart unless joined, small, and for several users at once."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from edgewise.local import clusters, faults, status
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.engine.finding import find_engine
from edgewise.local.errors import LocalError
from edgewise.local.layout import Home
from edgewise.local.network import joining
from edgewise.testing.clusters import temporary_cluster, unique_name
from edgewise.testing.eventually import eventually
from edgewise.testing.traces import Traces
from tests.e2e.local.workloads import PORT, delete_pods, reaches, ready_pod, run_python

pytestmark = pytest.mark.root

GIGABYTE = 1 << 30


@pytest.fixture(scope="module")
def pair(cluster: LocalCluster) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    with temporary_cluster("beside", nodes=1) as beside:
        yield cluster, beside


@pytest.fixture
async def addresses(pair: tuple[LocalCluster, LocalCluster]) -> AsyncIterator[list[str]]:
    """Of a serving pod in each cluster."""
    found = []
    for cluster in pair:
        async with cluster.client() as client:
            pod = await ready_pod(client, "web")
            found.append(pod.status.pod_ip)
    yield found
    for cluster in pair:
        async with cluster.client() as client:
            await delete_pods(client, ["web"])


async def reached(cluster: LocalCluster, address: str) -> bool:
    async with cluster.client() as client:
        return await reaches(client, "web", address)


async def test_pods_reach_the_other_cluster_only_while_they_are_joined(
    pair: tuple[LocalCluster, LocalCluster], addresses: list[str]
) -> None:
    one, two = pair
    assert not await reached(one, addresses[1])
    assert not await reached(two, addresses[0])
    joining.connect(one, two)
    assert await reached(one, addresses[1])
    assert await reached(two, addresses[0])
    joining.disconnect(two, one)
    assert not await reached(one, addresses[1])
    assert not await reached(two, addresses[0])


async def test_packets_between_joined_clusters_take_as_long_as_asked(
    pair: tuple[LocalCluster, LocalCluster], addresses: list[str]
) -> None:
    one, two = pair
    joining.connect(one, two, latency=30.0)
    code = (
        "import socket, time\n"
        "began = time.monotonic()\n"
        f"socket.create_connection(({addresses[1]!r}, {PORT}), 5).close()\n"
        "print(time.monotonic() - began)\n"
    )
    async with one.client() as client:

        async def takes_a_round_trip() -> None:
            # The relay begins a moment after the cable is laid.
            assert float(await run_python(client, "web", code)) >= 0.060

        await eventually(takes_a_round_trip, within=20)
        # A number is used again once it is free, so either may have the lower one, and the relay.
        lower, higher = sorted(pair, key=lambda cluster: cluster.record.index)
        relay = f"relay/to-{higher.record.index}"
        # On a busy machine a packet may take as long without it.
        await eventually(lambda: relay in faults.component_names(lower))
        faults.kill(lower, relay)
        await eventually(takes_a_round_trip, within=20)
    joining.disconnect(one, two)
    assert not await reached(one, addresses[1])


async def test_two_clusters_fit_into_three_and_a_half_gigabytes(
    pair: tuple[LocalCluster, LocalCluster],
) -> None:
    seen = [await status.observe(cluster) for cluster in pair]
    assert all(each.ready for each in seen)
    assert sum(each.memory for each in seen) < 3.5 * GIGABYTE


def test_addresses_do_not_overlap(pair: tuple[LocalCluster, LocalCluster]) -> None:
    one, two = (cluster.record.addresses.networks for cluster in pair)
    assert not any(a.overlaps(b) for a in one for b in two)


async def test_starting_twice_at_once_makes_one_cluster() -> None:
    """Once from a thread, and once from a program with a loop of its own."""
    name = unique_name("twice")
    spec = LocalClusterSpec(name=name, simulated_nodes=1)
    try:
        made = await asyncio.gather(asyncio.to_thread(clusters.up, spec), clusters.bring_up(spec))
        assert [cluster.record for cluster in made] == [clusters.get(name).record] * 2
        managers = [p for p in made[0].running() if p.component == "manager" and "-m" in p.argv]
        assert len(managers) == 1
        async with made[1].client() as client:
            assert (await client.version()).startswith("v1.34")
        with pytest.raises(LocalError, match="other options"):
            await clusters.bring_up(LocalClusterSpec(name=name, simulated_nodes=2))
    finally:
        await asyncio.to_thread(clusters.down, name)
    with pytest.raises(LocalError, match=f"no local cluster is called '{name}'"):
        clusters.get(name)


# Run as one process of another user, whose commands see each other's processes.
PLAIN_USER = """
import json, subprocess, sys
commands = [
    ["up", "--name", "plain", "--nodes", "2", "--json"],
    ["kubeconfig", "--merge"],
    ["status", "--name", "plain", "--json"],
    ["down", "--all"],
]
results = []
for command in commands:
    done = subprocess.run([sys.executable, "-m", "edgewise.cli", "local", *command],
                          capture_output=True, text=True, timeout=180)
    results.append([done.returncode, done.stdout, done.stderr])
print(json.dumps(results))
"""


def test_a_user_without_rights_gets_simulated_nodes_and_leaves_nothing(tmp_path: Path) -> None:
    home = Home.of("plain", tmp_path / "state")
    environment = os.environ | {
        "HOME": str(tmp_path),
        "EDGEWISE_STATE_DIR": str(tmp_path / "state"),
        "EDGEWISE_ENGINE_DIR": str(find_engine().path("etcd").parent),
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }
    # Another user as far as the kernel's rights go, yet one who may read this checkout.
    other_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    with Traces(home) as traces:
        ran = subprocess.run(
            [*other_user, sys.executable, "-c", PLAIN_USER],
            check=True,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=250,
        )
        up, merged, seen, down = json.loads(ran.stdout)
        assert [up[0], merged[0], seen[0], down[0]] == [0, 0, 0, 0], ran.stdout
        assert "real nodes need root: starting 2 simulated nodes instead" in up[2]
        assert json.loads(up[1])["simulated_nodes"] == 2
        assert json.loads(up[1])["server"].startswith("https://127.0.0.1:")
        assert json.loads(seen[1])["ready"]
        assert traces.left() == []
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "kubeconfig").exists()
