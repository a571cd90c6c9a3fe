"""Real pods on real nodes: Services, names, NodePorts, logs, exec, webhooks, and no way out."""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import ConfigMap, Node, Pod, Service
from edgewise.kube.objects import ObjectMeta
from edgewise.local.clusters import LocalCluster
from edgewise.local.control_plane.identities import Leaf
from edgewise.local.control_plane.pki import ensure_pki
from edgewise.local.control_plane.programs import SIMULATED
from edgewise.testing.eventually import eventually
from tests.e2e.local.workloads import (
    PORT,
    delete_pods,
    fetch,
    reaches,
    ready_pod,
    run_python,
    web_spec,
)

pytestmark = pytest.mark.root

NODE_PORT = 30080


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(cluster: LocalCluster) -> AsyncIterator[None]:
    """A Deployment of ten pods behind a Service."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": web_spec()}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "type": "NodePort",
            "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": PORT, "nodePort": NODE_PORT}],
        },
    }
    async with cluster.client() as client:
        await client.apply(deployment)
        await client.apply(service)

        async def all_available() -> None:
            found = await client.get(Deployment, "web", "default")
            assert found.status.available_replicas == 10

        await eventually(all_available, within=90, every=0.2)
        yield
        await client.delete(Deployment, "web", "default")
        await client.delete(Service, "web", "default")


@pytest.fixture
async def probe(client: Client) -> AsyncIterator[Pod]:
    pod = await ready_pod(client, "probe")
    yield pod
    await delete_pods(client, ["probe"])


async def test_nodes_say_where_they_are(client: Client, cluster: LocalCluster) -> None:
    nodes = {node.metadata.name: node for node in (await client.list(Node)).items}
    assert set(nodes) == {*cluster.spec.node_names, *cluster.spec.simulated_names}
    for node in nodes.values():
        assert node.metadata.labels["topology.kubernetes.io/region"] == "eu-west"
        assert node.metadata.labels["topology.kubernetes.io/zone"].startswith("eu-west-")
    for number, name in enumerate(cluster.spec.node_names, start=1):
        assert nodes[name].spec.pod_cidr == str(cluster.record.addresses.pods_of(number))


@pytest.mark.usefixtures("web")
async def test_pods_spread_over_the_real_nodes_only(client: Client, cluster: LocalCluster) -> None:
    pods = (await client.list(Pod, "default", labels="app=web")).items
    where = Counter(pod.spec["nodeName"] for pod in pods)
    assert sum(where.values()) == 10
    assert set(where) == set(cluster.spec.node_names)


@pytest.mark.usefixtures("web")
async def test_a_service_is_found_by_name_and_balances(client: Client, probe: Pod) -> None:
    code = (
        "import urllib.request\n"
        "for n in range(60):\n"
        "    url = 'http://web.default.svc.cluster.local/'\n"
        "    print(urllib.request.urlopen(url, timeout=5).read().decode())\n"
    )
    answers: list[list[str]] = []

    async def all_answer() -> None:
        said = await run_python(client, "probe", code)
        answers[:] = [line.split() for line in said.splitlines()]

    # kube-proxy hears of ready pods when everybody does, and needs a moment then.
    await eventually(all_answer, within=30)
    # Pods see the asking pod itself, not an address that somebody put before it.
    assert {address for _, address in answers} == {probe.status.pod_ip}
    assert len({name for name, _ in answers}) >= 5


@pytest.mark.usefixtures("web")
async def test_the_host_reaches_node_ports_pods_and_services(
    client: Client, cluster: LocalCluster
) -> None:
    for number in range(1, cluster.spec.nodes + 1):
        address = str(cluster.record.addresses.node(number))

        async def answers(address: str = address) -> None:
            assert (await fetch(address, NODE_PORT)).startswith("web-")

        # kube-proxy hears of ready pods when everybody does, and needs a moment then.
        await eventually(answers, within=30, not_yet=(ConnectionRefusedError,))
    pod = (await client.list(Pod, "default", labels="app=web")).items[0]
    assert (await fetch(pod.status.pod_ip)).split() == [
        pod.metadata.name,
        cluster.host_address,
    ]
    service = await client.get(Service, "web", "default")
    assert (await fetch(service.spec.cluster_ip, 80)).startswith("web-")


async def test_kubectl_reads_logs_and_runs_commands(cluster: LocalCluster, probe: Pod) -> None:
    async def kubectl(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            cluster.program("kubectl"),
            f"--kubeconfig={cluster.kubeconfig}",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    assert (await kubectl("logs", "probe")).startswith("serving\n")
    assert (await kubectl("exec", "probe", "--", "hostname")).strip() == "probe"
    assert probe.spec["nodeName"] in await kubectl("get", "pods", "-o", "wide")


async def test_there_is_no_way_out(client: Client, cluster: LocalCluster, probe: Pod) -> None:
    outside = "192.0.2.2"
    assert not await reaches(client, probe.metadata.name, outside, 80)

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    # The host listens where the API server may come, yet a pod may not.
    async with await asyncio.start_server(hello, cluster.host_address, 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert not await reaches(client, probe.metadata.name, cluster.host_address, port)


async def test_a_pod_talks_to_the_api_server_as_its_service_account(
    client: Client, probe: Pod
) -> None:
    code = (
        "import json, ssl, urllib.request\n"
        "d = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
        "t = ssl.create_default_context(cafile=d + 'ca.crt')\n"
        "r = urllib.request.Request('https://kubernetes.default.svc/version',\n"
        "    headers={'Authorization': 'Bearer ' + open(d + 'token').read()})\n"
        "print(json.load(urllib.request.urlopen(r, context=t, timeout=5))['gitVersion'])\n"
    )
    assert (await run_python(client, probe.metadata.name, code)).startswith("v1.34")


@pytest.mark.usefixtures("web")
async def test_a_pod_in_the_network_of_its_node_reaches_services(
    client: Client, cluster: LocalCluster
) -> None:
    """As an ingress, a monitoring agent or a gateway with hostNetwork does."""
    names = [f"at-{node}" for node in cluster.spec.node_names]
    own = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    try:
        await asyncio.gather(
            *(
                ready_pod(client, f"at-{node}", web_spec(nodeName=node, **own))
                for node in cluster.spec.node_names
            )
        )
        code = (
            "import socket, urllib.request\n"
            "url = 'http://web.default.svc.cluster.local/'\n"
            "ask = lambda: urllib.request.urlopen(url, timeout=5).read().split()[0]\n"
            "names = {ask() for _ in range(60)}\n"
            "socket.create_connection(('kubernetes.default.svc', 443), 5).close()\n"
            "print(len(names))\n"
        )
        for name in names:
            # Pods of its own node and of the other one, all behind one address.
            assert int(await run_python(client, name, code)) >= 6
            assert not await reaches(client, name, "192.0.2.2", 80), "a way out"
    finally:
        await delete_pods(client, names)


async def test_pods_that_ask_for_it_land_on_simulated_nodes(
    client: Client, cluster: LocalCluster
) -> None:
    spec = web_spec(
        nodeSelector={SIMULATED: "true"}, tolerations=[{"key": SIMULATED, "operator": "Exists"}]
    )
    await client.create(Pod(metadata=ObjectMeta(name="pretended", namespace="default"), spec=spec))

    async def is_running() -> None:
        pod = await client.get(Pod, "pretended", "default")
        assert pod.status.phase == "Running"
        assert pod.spec["nodeName"] in cluster.spec.simulated_names

    await eventually(is_running, within=30, every=0.1)
    await delete_pods(client, ["pretended"])


# Webhooks

CA, SERVING = "webhook-ca", "webhook"
DENY = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": "", "allowed": False, "status": {"message": "not today"}},
}
# The same server, for inside a pod: standard library only.
POD_WEBHOOK = """
import http.server, json, ssl
class Deny(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"uid": review["request"]["uid"], "allowed": False,
                  "status": {"message": "not today"}}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                           "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("", 8443), Deny)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def serving_certificate(folder: Path, name: str) -> tuple[Path, Path, bytes]:
    leaf = Leaf(file=SERVING, authority=CA, common_name=name, server=True, names=(name,))
    ensure_pki(folder, [CA], [leaf], [])
    ca = (folder / f"{CA}.crt").read_bytes()
    return folder / f"{SERVING}.crt", folder / f"{SERVING}.key", ca


def webhook(name: str, where: dict[str, object], ca: bytes, victims: str) -> dict[str, object]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.edgewise.test",
                "clientConfig": {**where, "caBundle": msgspec.to_builtins(ca)},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ],
                "objectSelector": {"matchLabels": {"victim": victims}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 5,
            }
        ],
    }


async def until_denied(client: Client, victims: str) -> None:
    async def is_denied() -> bool:
        meta = ObjectMeta(generate_name="victim-", namespace="default", labels={"victim": victims})
        try:
            await client.create(ConfigMap(metadata=meta))
        except ApiError as error:
            return "not today" in str(error)
        return False

    # The API server learns of a new webhook a moment later.
    await eventually(is_denied, within=20, every=0.1)


async def remove_webhook(client: Client, name: str) -> None:
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}"
    with contextlib.suppress(ApiError):
        await client.request("DELETE", path)


async def test_a_webhook_on_the_host_is_asked(
    client: Client, cluster: LocalCluster, tmp_path: Path
) -> None:
    certificate, key, ca = serving_certificate(tmp_path, cluster.host_address)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        review = msgspec.json.decode(await reader.readexactly(length))
        response = {**DENY["response"], "uid": review["request"]["uid"]}  # type: ignore[dict-item]
        body = msgspec.json.encode({**DENY, "response": response})
        header = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(f"{header}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, cluster.host_address, 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        where: dict[str, object] = {"url": f"https://{cluster.host_address}:{port}/"}
        try:
            await client.apply(webhook("on-host", where, ca, "host"))
            await until_denied(client, "host")
        finally:
            await remove_webhook(client, "on-host")


async def test_a_webhook_in_a_pod_is_asked(client: Client, tmp_path: Path) -> None:
    certificate, key, ca = serving_certificate(tmp_path, "hook.default.svc")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hook", "namespace": "default"},
        "stringData": {"tls.crt": certificate.read_text(), "tls.key": key.read_text()},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hook", "namespace": "default"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": 8443}]},
    }
    spec = web_spec(volumes=[{"name": "tls", "secret": {"secretName": "hook"}}])
    spec["containers"][0] |= {
        "command": ["python3", "-c", POD_WEBHOOK],
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    await client.apply(secret)
    await client.apply(service)
    try:
        await ready_pod(client, "hook", spec)
        reference = {"service": {"name": "hook", "namespace": "default", "path": "/"}}
        await client.apply(webhook("in-pod", reference, ca, "pod"))
        await until_denied(client, "pod")
    finally:
        await remove_webhook(client, "in-pod")
        await delete_pods(client, ["hook"])
