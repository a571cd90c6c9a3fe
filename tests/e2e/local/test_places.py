"""Ten real nodes and a place: clients there are as far from each node as was said.

The round trips are those of the measurements by which placement is judged: from none to half a
second. A new connection takes one of them, whether it is made to a pod or to a Service.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from edgewise.kube.client import Client
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod, Service
from edgewise.kube.objects import ObjectMeta
from edgewise.local import faults, places
from edgewise.local.clusters import LocalCluster
from edgewise.local.component import place_machine
from edgewise.local.errors import LocalError
from edgewise.local.machines.processes import of_cluster
from edgewise.local.network.cabling import running_inits
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from tests.e2e.local.workloads import PORT, until_ready, web_spec

pytestmark = pytest.mark.root

SHARES = ""

ROUND_TRIPS = [0, 10, 25, 50, 75, 100, 150, 200, 300, 500]
# The relay is a program like any other: on a busy machine it may be late, but never early.
LATE = 15.0
EDGEWISE = [sys.executable, "-m", "edgewise.cli", "local"]

# Connects many times, several at once, and prints who answered and how long connecting took.
CONNECT = """
import asyncio, json, sys, time

async def one(address, port):
    began = time.monotonic()
    reader, writer = await asyncio.open_connection(address, port)
    took = time.monotonic() - began
    writer.write(b"GET / HTTP/1.0\\r\\n\\r\\n")
    answer = await reader.read()
    writer.close()
    return [answer.decode().rpartition("\\r\\n\\r\\n")[2].split()[0], took * 1000]

async def main(address, port, times):
    limit = asyncio.Semaphore(4)
    async def held():
        async with limit:
            return await one(address, port)
    print(json.dumps(await asyncio.gather(*(held() for _ in range(times)))))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    away = {"rome": [each / 2 for each in ROUND_TRIPS]}
    with temporary_cluster("far", nodes=len(ROUND_TRIPS), places=away) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def addresses(cluster: LocalCluster) -> dict[str, str]:
    """A serving pod on each node, by its name, and `web`, a Service in front of all."""
    return asyncio.run(serving(cluster))


async def serving(cluster: LocalCluster) -> dict[str, str]:
    async with cluster.client() as client:
        meta = ObjectMeta(name="web", namespace="default")
        ports = [{"port": 80, "targetPort": PORT}]
        spec: dict[str, Any] = {"selector": {"app": "web"}, "ports": ports}
        await client.create(Service(metadata=meta, spec=spec))
        names = [f"at-{node}" for node in cluster.spec.node_names]
        for node, name in zip(cluster.spec.node_names, names, strict=True):
            pod = ObjectMeta(name=name, namespace="default", labels={"app": "web"})
            await client.create(Pod(metadata=pod, spec=web_spec(nodeName=node)))
        found = [(await until_ready(client, name, within=120)).status.pod_ip for name in names]
        return dict(zip(names, found, strict=True))


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with cluster.client() as client:
        yield client


def run(cluster: LocalCluster, *command: str, seconds: float = 120) -> str:
    done = subprocess.run(
        places.command_in(cluster, "rome", command),
        check=False,
        capture_output=True,
        text=True,
        timeout=seconds,
        env=places.environment_in(cluster, "rome"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def edgewise(*arguments: str) -> str:
    command = [*EDGEWISE, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


async def connections(
    cluster: LocalCluster, address: str, port: int, times: int
) -> dict[str, list[float]]:
    """Milliseconds to connect, by the pod that answered."""
    command = ("python3", "-c", CONNECT, address, str(port), str(times))
    found: dict[str, list[float]] = defaultdict(list)
    for pod, took in json.loads(await asyncio.to_thread(run, cluster, *command)):
        found[pod].append(took)
    return found


def held(cluster: LocalCluster, found: dict[str, list[float]]) -> None:
    """Each pod was as far as its node."""
    assert sorted(found) == sorted(f"at-{node}" for node in cluster.spec.node_names)
    for node, wanted in zip(cluster.spec.node_names, ROUND_TRIPS, strict=True):
        least = min(found[f"at-{node}"])
        assert wanted <= least <= wanted + LATE, (node, wanted, least)


async def test_ten_round_trips_to_pods(cluster: LocalCluster, addresses: dict[str, str]) -> None:
    async def all_of_them() -> None:
        # Of those that begin together, none may be the first to ask where the node is: one round
        # more. Beside a busy neighbour all of a pod's may be late: then they are tried again.
        seen = await asyncio.gather(
            *(connections(cluster, address, PORT, 12) for address in addresses.values())
        )
        held(cluster, {pod: took for found in seen for pod, took in found.items()})

    await eventually(all_of_them, within=90)


async def test_ten_round_trips_through_a_service_by_its_name(
    cluster: LocalCluster, addresses: dict[str, str]
) -> None:
    async def all_of_them() -> None:
        # A pod that is ready is a moment later in the rules of a busy kube-proxy.
        held(cluster, await connections(cluster, "web.default.svc.cluster.local", 80, 150))

    await eventually(all_of_them, within=90)


async def test_nodes_do_not_notice(cluster: LocalCluster, client: Client) -> None:
    """The farthest node renews its lease like the nearest, and answers its API at once."""
    for node in (cluster.spec.node_names[0], cluster.spec.node_names[-1]):
        lease = await client.get(Lease, node, "kube-node-lease")
        renewed = str(lease.spec.renew_time)

        async def again(node: str = node, renewed: str = renewed) -> None:
            lease = await client.get(Lease, node, "kube-node-lease")
            assert str(lease.spec.renew_time) != renewed

        await eventually(again, within=60)
    far = f"at-{cluster.spec.node_names[-1]}"
    took = []
    for _ in range(5):
        began = time.monotonic()
        await client.exec(far, "default", ["true"])
        took.append(time.monotonic() - began)
    # By way of the place, it would take several round trips of half a second.
    assert min(took) < 1.0


async def test_a_distance_changes_while_all_runs(
    cluster: LocalCluster, addresses: dict[str, str]
) -> None:
    near, far = (cluster.spec.node_names[number] for number in (0, -1))
    told = [f"rome:{near}=40ms", f"rome:{far}=0ms"]
    said = edgewise("fault", "latency", *told, "--name", cluster.name)
    assert said.startswith("from now on rome:")

    async def is_so() -> None:
        for node, wanted in ((near, 80.0), (far, 0.0)):
            found = await connections(cluster, addresses[f"at-{node}"], PORT, 5)
            assert wanted <= min(found[f"at-{node}"]) <= wanted + LATE

    await eventually(is_so, within=20)
    # Neither a new relay nor a new manager forgets it.
    for component in ("relay/place1", "manager"):
        faults.kill(cluster, component)
    await eventually(is_so, within=60, not_yet=(LocalError,))
    shown = edgewise("status", "--name", cluster.name, "--json")
    (place,) = json.loads(shown)["places"]
    assert place["name"] == "rome"
    assert place["latency"][near] == {"ms": 40.0, "jitter": 0.0}


def test_a_stream_arrives_in_order_whatever_the_distance_does(
    cluster: LocalCluster,
) -> None:
    """UDP says what TCP hides: a datagram never overtakes one that was sent before it."""
    node = cluster.spec.node_names[1]
    address = str(cluster.record.addresses.node(2))
    # In the place, since what comes back comes over the same cable, in the other direction.
    send = textwrap.dedent(
        f"""
        import socket, time
        line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for number in range(1000):
            line.sendto(str(number).encode(), ({address!r}, 7777))
            time.sleep(0.002)
        """
    )
    receive = textwrap.dedent(
        """
        import socket
        line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        line.bind(("", 7777))
        line.settimeout(5)
        print("listening", flush=True)
        try:
            while True:
                print(line.recv(100).decode(), flush=True)
        except TimeoutError:
            pass
        """
    )
    inits = running_inits(cluster.home, cluster.record.programs["init"])
    enter = ["nsenter", f"--target={inits[node].pid}", "--net", "--"]
    with subprocess.Popen(
        [*enter, sys.executable, "-c", receive], stdout=subprocess.PIPE, text=True
    ) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline().strip() == "listening"
        sender = subprocess.Popen(places.command_in(cluster, "rome", ["python3", "-c", send]))
        for distance in ("40ms±20ms", "1ms", "30ms±30ms", "0ms") * 2:
            places.change_latency(cluster, [f"rome:{node}={distance}"])
            time.sleep(0.2)
        assert sender.wait(timeout=60) == 0
        numbers = [int(line) for line in receiver.stdout.read().split()]
    assert len(numbers) == 1000
    assert numbers == sorted(numbers)


def test_a_command_in_a_place_ends_with_who_asked_for_it(cluster: LocalCluster) -> None:
    command = [*EDGEWISE, "run", "--name", cluster.name, "--place", "rome", "--", "sleep", "300"]
    mark = "run/rome"

    def sleeping() -> bool:
        return any(
            process.component == mark and process.argv[0] == "sleep"
            for process in of_cluster(cluster.home.path)
        )

    with subprocess.Popen(command) as running:
        deadline = time.monotonic() + 30
        while not sleeping():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.kill()
    deadline = time.monotonic() + 10
    while sleeping():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_place_that_is_killed_is_made_again(
    cluster: LocalCluster, addresses: dict[str, str]
) -> None:
    faults.kill(cluster, place_machine("rome"))
    node = cluster.spec.node_names[3]
    deadline = time.monotonic() + 60
    while True:
        try:
            found = asyncio.run(connections(cluster, addresses[f"at-{node}"], PORT, 3))
            assert ROUND_TRIPS[3] <= min(found[f"at-{node}"])
            return
        except (AssertionError, LocalError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_what_is_wrong_is_said_in_a_sentence(cluster: LocalCluster) -> None:
    for arguments, complaint in (
        (["run", "--place", "oslo", "--", "true"], "has no place 'oslo': it has rome"),
        (["fault", "latency", "oslo:x=5ms"], "has no place 'oslo': it has rome"),
        (["fault", "latency", "rome:x=5ms"], "has no real node 'x'"),
        (["fault", "latency", "rome=5ms"], "is not a distance"),
    ):
        named = [*EDGEWISE, *arguments[:1], "--name", cluster.name, *arguments[1:]]
        if arguments[0] == "fault":
            named = [*EDGEWISE, *arguments, "--name", cluster.name]
        done = subprocess.run(named, check=False, capture_output=True, text=True, timeout=30)
        assert done.returncode == 1
        assert complaint in done.stderr
