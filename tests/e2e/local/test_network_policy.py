"""Local clusters enforce NetworkPolicy: real pods on two nodes, TCP and UDP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio

from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound, Unreachable
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.objects import ObjectMeta
from edgewise.local import faults
from edgewise.local.clusters import LocalCluster
from edgewise.local.network.cabling import CableError, nft, running_inits
from edgewise.local.network.policies.names import ENFORCER, MARK
from edgewise.local.network.policies.ruleset import TABLE
from edgewise.testing.eventually import eventually
from tests.e2e.local.workloads import IMAGE, WEB

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="module")]

TCP, UDP = 8080, 5000
COLOURS = ("red", "blue", "green")
# One pod of each colour on each node.
SERVER = f"""
import socket, threading

def echo():
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("", {UDP}))
    while True:
        data, back = end.recvfrom(100)
        end.sendto(data, back)

threading.Thread(target=echo, daemon=True).start()
{WEB}
"""
TRY = """
import json, socket, sys, threading

def tcp(address, port):
    socket.create_connection((address, port), 1.5).close()

def udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.settimeout(0.5)
        for _ in range(3):
            end.sendto(b"?", (address, port))
            try:
                return end.recv(10)
            except TimeoutError:
                pass
        raise TimeoutError

def attempt(target):
    kind, address, port = target
    try:
        (tcp if kind == "tcp" else udp)(address, port)
        arrived.append(target)
    except OSError:
        pass

arrived = []
attempts = [threading.Thread(target=attempt, args=(t,)) for t in json.loads(sys.argv[1])]
[each.start() for each in attempts]
[each.join() for each in attempts]
print(json.dumps(arrived))
"""
Target = tuple[str, str, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with cluster.client() as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pods(cluster: LocalCluster, api: Client) -> AsyncIterator[dict[str, Pod]]:
    for colour in COLOURS:
        await api.create(Namespace(metadata=ObjectMeta(name=colour, labels={"colour": colour})))
    made = {}
    for colour in COLOURS:
        for number, node in enumerate(cluster.spec.node_names):
            await api.create(server(colour, f"{colour}-{number}", node))
    for colour in COLOURS:
        for number in range(len(cluster.spec.node_names)):
            name = f"{colour}-{number}"
            made[name] = await until_ready(api, colour, name)
    yield made
    for colour in COLOURS:
        await api.delete(Namespace, colour)

    async def gone() -> None:
        left = [each.metadata.name for each in (await api.list(Namespace)).items]
        assert not set(COLOURS) & set(left)

    await eventually(gone, within=60, every=0.5)


def server(namespace: str, name: str, node: str, code: str = SERVER) -> Pod:
    container = {
        "name": "server",
        "image": IMAGE,
        "command": ["python3", "-u", "-c", code],
        "ports": [
            {"name": "web", "containerPort": TCP},
            {"name": "echo", "containerPort": UDP, "protocol": "UDP"},
        ],
        # Asked by the kubelet of the node, which no policy keeps out.
        "readinessProbe": {"tcpSocket": {"port": TCP}, "periodSeconds": 1},
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": name}), spec=spec)


async def until_ready(api: Client, namespace: str, name: str) -> Pod:
    async def ready() -> None:
        assert (await api.get(Pod, name, namespace)).ready

    await eventually(ready, within=60, every=0.2)
    return await api.get(Pod, name, namespace)


async def arrives(api: Client, pod: Pod, targets: Iterable[Target]) -> set[Target]:
    asked = json.dumps(list(targets))
    command = ["python3", "-c", TRY, asked]
    result = await api.exec(pod.metadata.name, pod.metadata.namespace, command)
    assert result.exit_code == 0, result.stderr.decode()
    return {(kind, address, port) for kind, address, port in json.loads(result.stdout)}


async def crossings(api: Client, pods: dict[str, Pod]) -> set[tuple[str, str, str]]:
    """Every (protocol, from, to) that gets through, of all pairs of pods."""
    by_address = {pod.status.pod_ip: name for name, pod in pods.items()}

    async def of(source: str) -> set[tuple[str, str, str]]:
        others = [pod for name, pod in pods.items() if name != source]
        targets = [("tcp", pod.status.pod_ip, TCP) for pod in others]
        targets += [("udp", pod.status.pod_ip, UDP) for pod in others]
        arrived = await arrives(api, pods[source], targets)
        return {(kind, source, by_address[address]) for kind, address, _ in arrived}

    found = await asyncio.gather(*map(of, pods))
    return set().union(*found)


def pairs(
    pods: dict[str, Pod], allowed: Any, kinds: Iterable[str] = ("tcp", "udp")
) -> set[tuple[str, str, str]]:
    return {
        (kind, one, other)
        for kind in kinds
        for one in pods
        for other in pods
        if one != other and allowed(one.split("-")[0], other.split("-")[0])
    }


async def apply(api: Client, namespace: str, name: str, **spec: Any) -> None:
    await api.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"podSelector": {}, **spec},
        }
    )


async def remove_policies(cluster: LocalCluster, api: Client) -> None:
    """Also after a test that killed the API server: other tests use the cluster next.

    Back when no node has rules any more, so that the next test does not take the rules that are
    about to go for its own.
    """

    async def removed() -> None:
        for policy in (await api.list(NetworkPolicy)).items:
            with contextlib.suppress(NotFound):
                await api.delete(NetworkPolicy, policy.metadata.name, policy.metadata.namespace)

    await eventually(removed, within=40, not_yet=(Unreachable,))

    def without_rules() -> None:
        # The mark goes last, when the enforcer has said of every node what it did.
        assert not (cluster.home.path / MARK).exists()
        assert not any(node_has_rules(cluster, node) for node in cluster.spec.node_names)

    await eventually(without_rules, within=40, every=0.1)


def node_has_rules(cluster: LocalCluster, node: str) -> bool:
    init = running_inits(cluster.home, cluster.record.programs["init"])[node]
    try:
        nft(f"list table inet {TABLE}", init.pid)
    except CableError:
        return False
    return True


async def until_enforced(cluster: LocalCluster, containing: str, *, within: float = 15) -> None:
    """Until the last line of the enforcer's log about each node says so."""

    def said() -> None:
        lines = (cluster.home.logs / f"{ENFORCER}.log").read_text().splitlines()
        for node in cluster.spec.node_names:
            about = [line for line in lines if f"{node} has " in line]
            assert about, f"nothing of {node} yet"
            assert containing in about[-1], about[-3:]

    await eventually(said, within=within, every=0.05)


async def alone_with_their_colour(api: Client, cluster: LocalCluster) -> None:
    """Red and blue are closed to others; blue reaches DNS and the API server besides."""
    control_plane = f"{cluster.record.addresses.control_plane}/32"
    same: dict[str, Any] = {"podSelector": {}}
    await apply(api, "red", "same", policyTypes=["Ingress"], ingress=[{"from": [same]}])
    await apply(
        api,
        "blue",
        "same",
        policyTypes=["Ingress", "Egress"],
        ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"colour": "blue"}}}]}],
        egress=[{"to": [same]}, {"to": [{"ipBlock": {"cidr": control_plane}}]}],
    )
    await until_enforced(cluster, "rules of 2 NetworkPolicies")


def alone(one: str, other: str) -> bool:
    return one == other or (other == "green" and one != "blue")


async def test_without_a_policy_everything_passes_and_nothing_is_loaded(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    await remove_policies(cluster, api)
    assert await crossings(api, pods) == pairs(pods, lambda *_: True)
    assert not any(node_has_rules(cluster, node) for node in cluster.spec.node_names)


async def test_packets_cross_inside_a_namespace_and_not_between(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    try:
        await alone_with_their_colour(api, cluster)
        assert await crossings(api, pods) == pairs(pods, alone)
        # Services: of DNS and of the API server, at addresses that become others on the way.
        addresses = cluster.record.addresses
        wanted = {
            ("tcp", str(addresses.api_service), 443),
            ("tcp", str(addresses.dns_service), 53),
        }
        assert await arrives(api, pods["blue-0"], wanted) == wanted
    finally:
        await remove_policies(cluster, api)


async def test_ports_by_name_and_range_and_blocks_with_holes(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    network = str(cluster.record.addresses.pods)
    hole = f"{pods['red-0'].status.pod_ip}/32"
    try:
        await apply(
            api,
            "green",
            "named",
            policyTypes=["Ingress"],
            ingress=[
                {
                    "from": [{"ipBlock": {"cidr": network, "except": [hole]}}],
                    "ports": [{"port": "web"}, {"protocol": "UDP", "port": 4000, "endPort": 4999}],
                }
            ],
        )
        await until_enforced(cluster, "rules of 1 NetworkPolicy")
        found = {each for each in await crossings(api, pods) if each[2].startswith("green")}
        expected = pairs(pods, lambda _, other: other == "green", kinds=["tcp"])
        assert found == {each for each in expected if each[1] != "red-0"}
    finally:
        await remove_policies(cluster, api)


async def test_a_new_pod_is_under_its_policies_from_its_first_packet(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    """It knocks at a door that is closed to it, and at one that is open, as soon as it runs."""
    forbidden, allowed = pods["green-0"].status.pod_ip, pods["blue-1"].status.pod_ip
    knock = f"""
import socket, time
begun, counts = time.monotonic(), {{}}
while time.monotonic() - begun < 3:
    for address in ({forbidden!r}, {allowed!r}):
        try:
            socket.create_connection((address, {TCP}), 0.2).close()
            counts.setdefault(address, time.monotonic() - begun)
        except OSError:
            pass
print("knocked", counts.get({forbidden!r}), counts.get({allowed!r}))
{SERVER}
"""
    try:
        await alone_with_their_colour(api, cluster)
        await api.create(server("blue", "knocker", cluster.spec.node_names[0], knock))
        await until_ready(api, "blue", "knocker")
        log = await api.logs("knocker", "blue")
        line = next(each for each in log.splitlines() if each.startswith("knocked"))
        _, through, opened = line.split()
        assert through == "None"
        assert float(opened) < 1.5, line
    finally:
        await api.delete(Pod, "knocker", "blue", grace_seconds=0)
        await remove_policies(cluster, api)


async def test_rules_outlive_the_api_server_and_the_enforcer(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    try:
        await alone_with_their_colour(api, cluster)
        faults.kill(cluster, "kube-apiserver")
        faults.kill(cluster, ENFORCER)
        assert all(node_has_rules(cluster, node) for node in cluster.spec.node_names)

        async def answers() -> None:
            assert await crossings(api, pods) == pairs(pods, alone)

        await eventually(answers, within=40, every=0.5, not_yet=(Exception,))

        # The successor goes on: what changes afterwards counts.
        async def deleted() -> None:
            # A connection from before the restart may be reset once more.
            with contextlib.suppress(NotFound):
                await api.delete(NetworkPolicy, "same", "red")

        await eventually(deleted, within=20, not_yet=(Unreachable,))

        async def opened() -> None:
            crossed = await crossings(api, pods)
            assert crossed == pairs(pods, lambda a, b: a == b or "blue" not in (a, b))

        await eventually(opened, within=30, every=0.5, not_yet=(Unreachable,))
    finally:
        await remove_policies(cluster, api)


async def test_a_node_that_starts_again_has_its_rules_before_its_pods(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    node = cluster.spec.node_names[1]
    try:
        await alone_with_their_colour(api, cluster)
        before = faults.kill(cluster, node)

        def begun() -> None:
            now = running_inits(cluster.home, cluster.record.programs["init"]).get(node)
            assert now is not None
            assert now != before
            assert node_has_rules(cluster, node)

        await eventually(begun, within=20, every=0.1)

        async def again() -> None:
            for name in pods:
                pods[name] = await api.get(Pod, name, name.split("-")[0])
            assert await crossings(api, pods) == pairs(pods, alone)

        await eventually(again, within=90, every=1.0, not_yet=(Exception,))
    finally:
        await remove_policies(cluster, api)


async def test_the_last_policy_takes_the_rules_with_it(
    cluster: LocalCluster, api: Client, pods: dict[str, Pod]
) -> None:
    await apply(api, "red", "nothing", policyTypes=["Ingress"])

    def rules() -> None:
        assert all(node_has_rules(cluster, node) for node in cluster.spec.node_names)

    await eventually(rules)
    assert (cluster.home.path / MARK).exists()
    # Back only when no node has rules, and the mark is gone.
    await remove_policies(cluster, api)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def nothing_left(cluster: LocalCluster, api: Client) -> AsyncIterator[None]:
    yield
    await remove_policies(cluster, api)
