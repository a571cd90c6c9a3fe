"""Operator and gateway with the rights that the chart gives them: enough, and all are used.

They run as programs with the tokens of their service accounts. The API server's audit log
tells what was refused, and which of the granted verbs somebody needed.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import aiohttp
import msgspec
import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Patch
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.operator import DOMAINS
from edgewise.testing.eventually import eventually
from edgewise.testing.gateway_rig import LOOPBACK
from edgewise.testing.ports import free_port
from tests.integration.chart.games import games_live
from tests.integration.chart.tenants import AT_OTHER_TIMES, tenants_live

TOKEN = "a-token-that-is-only-for-tests"
NAMESPACE = "rights"


class Programs:
    """What the chart runs, on loopback."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.token_file = directory / "token"
        self.token_file.write_text(TOKEN)
        self.running = []

    async def start(self, name, *arguments):
        log = (self.directory / f"{name}.log").open("wb")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "edgewise.cli", *arguments, stderr=log
        )
        log.close()
        self.running.append(process)
        return process

    async def end(self):
        for process in reversed(self.running):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                await asyncio.wait_for(process.wait(), 30)
            except TimeoutError:
                process.kill()
                await process.wait()

    def logs(self):
        return "".join(file.read_text() for file in self.directory.glob("*.log"))


@pytest.fixture
async def programs():
    directory = Path(tempfile.mkdtemp(prefix="edgewise-rights-"))
    programs = Programs(directory)
    try:
        yield programs
    finally:
        await programs.end()
        shutil.rmtree(directory)


async def answers(url):
    with contextlib.suppress(OSError, aiohttp.ClientError):
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            return answer.status == 200
    return False


TEMPLATE = {
    "timeoutSeconds": 60,
    "reutilizeTimeoutSeconds": 60,
    "reuse": "Template",
    "podTemplates": [
        {
            "name": "app",
            "warmPods": 1,
            "service": True,
            "reset": {"restartContainer": "app", "timeoutSeconds": 1},
            "ports": [
                {"name": "web", "port": 8080},
                {"name": "game", "port": 7777, "protocol": "UDP"},
            ],
            "template": {"spec": {"containers": [{"name": "app", "image": "none"}]}},
        }
    ],
    "resources": [
        {
            "name": "settings",
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
        },
        {
            "name": "shared",
            "scope": "Template",
            "manifest": {
                "apiVersion": "v1",
                "kind": "Service",
                "spec": {"selector": {"app": "shared"}, "ports": [{"port": 80}]},
            },
        },
        *(
            {
                "name": kind.lower(),
                "manifest": {
                    "apiVersion": group,
                    "kind": kind,
                    "spec": {
                        **more,
                        "template": {
                            "metadata": {"labels": {"app": kind}},
                            "spec": {
                                "restartPolicy": "Never" if kind == "Job" else "Always",
                                "containers": [{"name": "c", "image": "none"}],
                            },
                        },
                    },
                },
            }
            for kind, group, more in (
                ("Deployment", "apps/v1", {"selector": {"matchLabels": {"app": "Deployment"}}}),
                (
                    "StatefulSet",
                    "apps/v1",
                    {"selector": {"matchLabels": {"app": "StatefulSet"}}, "serviceName": "x"},
                ),
                ("Job", "batch/v1", {}),
            )
        ),
    ],
}


class Kubelet:
    """Says of every pod that it runs: here are no nodes."""

    def __init__(self, client):
        self.client = client
        self.addresses = {}

    async def run(self):
        while True:
            for pod in (await self.client.list(Pod, NAMESPACE)).items:
                if pod.metadata.deleting:
                    with contextlib.suppress(NotFound):
                        await self.client.delete(Pod, pod.metadata.name, NAMESPACE, grace_seconds=0)
                elif not pod.ready:
                    await self.start(pod)
            await asyncio.sleep(0.1)

    async def start(self, pod):
        address = self.addresses.setdefault(pod.key, f"10.9.0.{len(self.addresses) + 1}")
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.client.patch(
            Pod,
            pod.metadata.name,
            NAMESPACE,
            body={"status": status},
            type=Patch.MERGE,
            subresource="status",
        )


async def test_with_the_charts_rights_sessions_live_and_end(
    api_server, client, account, installed, programs
):
    control, http_port, listen, hook = (free_port() for _ in range(4))
    await programs.start(
        "gateway",
        "gateway",
        f"--kubeconfig={await account('edgewise-gateway')}",
        f"--run-dir={programs.directory}/run",
        f"--control={LOOPBACK}:{control}",
        f"--token-file={programs.token_file}",
        f"--bind={LOOPBACK}",
        f"--http-port={http_port}",
        "--ports=21380-21389",
        "--drain-seconds=0",
        "--workers=1",
    )
    await programs.start(
        "operator",
        "operator",
        f"--kubeconfig={await account('edgewise-operator')}",
        f"--namespace={installed}",
        f"--listen={LOOPBACK}:{listen}",
        f"--gateway=http://{LOOPBACK}:{control}",
        f"--token-file={programs.token_file}",
        f"--webhook-url=https://{LOOPBACK}:{hook}",
        f"--webhook-port={hook}",
        "--ports=21380-21389",
    )
    await eventually(lambda: answers(f"http://{LOOPBACK}:{control}/readyz"), within=60)
    await eventually(lambda: answers(f"http://{LOOPBACK}:{listen}/readyz"), within=60)

    with contextlib.suppress(Exception):
        await client.create(Namespace.named(NAMESPACE))
    kubelet = asyncio.create_task(Kubelet(client).run())
    try:
        await live(client)
        await games_live(client, NAMESPACE)
        await tenants_live(client)
    finally:
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
    await programs.end()
    done = audited(api_server)
    for name in ("edgewise-operator", "edgewise-gateway"):
        used, forbidden = done[name]
        assert forbidden == set()
        unused = await granted(client, installed, name) - used
        assert {right for right in unused if not needed_at_other_times(*right)} == set()


# What only a LatencyPlacement needs.
OF_PLACEMENT = {
    ("placement.edgewise.dev", "latencyplacements"),
    ("placement.edgewise.dev", "latencyplacements/status"),
    ("apps", "replicasets"),
    ("", "persistentvolumeclaims"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("", "secrets"),
}

# What requests for tenants need: tests/integration/tenancy runs them with these rights.
ELSEWHERE = {
    # Of games that fail to start: tests/e2e/gameservers has one.
    ("", "pods/log"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    *(
        ("tenancy.edgewise.dev", f"{kind}{part}")
        for kind in ("tenantrequests", "rolerequests", "clusterrolerequests")
        for part in ("", "/status")
    ),
    ("tenancy.edgewise.dev", "tenantresourcequotas"),
    # What slices need: tests/integration/tenancy/slices runs them with these rights.
    ("", "pods/eviction"),
    *(
        ("tenancy.edgewise.dev", f"{kind}{part}")
        for kind in ("slices", "sliceclaims")
        for part in ("", "/status")
    ),
}


def needed_at_other_times(group, resource, verb):
    """What a run without trouble does not show in the log."""
    bound = {"services", "configmaps", "deployments", "statefulsets", "jobs"}
    written = bound | {"pods", "leases", "portclaims", "sessions", "sessiontemplates"}
    written |= {"servers", "fleets", "gametypes", "gameautoscalers", "allocations"}
    written |= {"poddisruptionbudgets"}
    if verb == "get" and resource in written:
        return True  # it is read again when the answer to a write was in doubt
    if verb == "create" and resource in bound:
        return True  # an apply that creates is written down as a patch
    if (group, resource) in OF_PLACEMENT or (resource, verb) == ("pods", "patch"):
        return True  # no placement is here; tests/e2e/placement has them
    if (group, resource) in ELSEWHERE:
        return True
    if resource.endswith("/finalizers"):
        return True  # the API server asks for it on its own
    return (group, resource, verb) in AT_OTHER_TIMES | {
        ("", "nodes", "get"),  # of slices, too
        ("", "nodes", "patch"),
        ("events.k8s.io", "events", "patch"),  # the same thing said again is counted
        ("exposure.edgewise.dev", "portclaims", "patch"),  # of an operator that crashed
        ("", "pods/exec", "create"),  # what later versions ask for instead of get
    }


def audited(api_server):
    """What each service account did, and what it was not allowed to do."""
    found = defaultdict(lambda: (set(), set()))
    for line in api_server.audit_log.read_bytes().splitlines():
        event = msgspec.json.decode(line)
        where = event.get("objectRef")
        if not where:
            continue  # discovery
        part = where["resource"] + (f"/{where['subresource']}" if "subresource" in where else "")
        used, forbidden = found[event["user"]["username"].rpartition(":")[2]]
        what = (where.get("apiGroup", ""), part, event["verb"])
        used.add(what)
        if event["annotations"]["authorization.k8s.io/decision"] != "allow":
            forbidden.add(what)
    return found


async def granted(client, namespace, name):
    everywhere = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    paths = [f"{everywhere}/{name}", *(f"{everywhere}/{name}-{each.name}" for each in DOMAINS)]
    paths.append(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/{name}")
    found = set()
    for path in paths:
        try:
            role = msgspec.json.decode(await client.request("GET", path))
        except NotFound:
            continue
        found |= {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
    return found


async def live(client):
    """A template, a session on it, a client that comes, is disconnected, returns and leaves."""

    async def make(kind, name, spec):
        document = {
            "apiVersion": kind.KIND.api_version,
            "kind": kind.KIND.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        path = kind.KIND.path(NAMESPACE)
        await client.request("POST", path, body=msgspec.json.encode(document))

    async def say(clients):
        await client.patch(
            Session, "room", NAMESPACE, body={"spec": {"clients": clients}}, type=Patch.MERGE
        )

    async def state():
        return (await client.get(Session, "room", NAMESPACE)).status

    await make(SessionTemplate, "game", TEMPLATE)
    await make(Session, "room", {"templateRef": {"name": "game"}})
    await say({"alice": {"connected": True}, "bob": {"connected": True}})

    async def both_ready():
        clients = (await state()).clients
        assert {name for name, one in clients.items() if one.ready} == {"alice", "bob"}, clients

    await eventually(both_ready, within=60)
    assert (await client.list(PortClaim)).items
    first = (await state()).clients["alice"]

    # A pod that is gone is replaced, at the same address.
    await client.delete(Pod, first.pods["app"], NAMESPACE, grace_seconds=0)

    async def recovered():
        one = (await state()).clients["alice"]
        return one.ready and one.pods != first.pods and one.endpoints == first.endpoints

    await eventually(recovered, within=60)
    await say({"bob": {"connected": False}})

    async def bob_is_lost():
        return (await state()).clients["bob"].phase == "Disconnected"

    await eventually(bob_is_lost, within=30)
    await say({"alice": None, "bob": None})

    async def nobody_is_left():
        return not (await state()).clients

    await eventually(nobody_is_left, within=30)
    await client.delete(Session, "room", NAMESPACE)
    await client.delete(SessionTemplate, "game", NAMESPACE)

    async def all_is_gone():
        left = [
            *(await client.list(Session, NAMESPACE)).items,
            *(await client.list(SessionTemplate, NAMESPACE)).items,
            *(await client.list(PortClaim)).items,
        ]
        return not left

    await eventually(all_is_gone, within=60)
