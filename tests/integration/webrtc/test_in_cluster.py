"""The sample and coturn in a real cluster, as deploy/turn and the session template have them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from webrtc_detector.ice import Turn
from webrtc_detector.measure import Target, measure

from edgewise.bench.webrtc_sample import images
from edgewise.local.clusters import Cluster
from edgewise.local.image_load import load, nodes_of
from edgewise.local.images import build_app
from edgewise.sessions.turn import TurnRealm
from edgewise.testing.clusters import temporary_cluster
from tests.integration.webrtc.conftest import FILMING

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "webrtc-detector"
SECRET = "one secret for one test cluster"
NODE_PORT = 30478


class Kubectl:
    def __init__(self, cluster: Cluster) -> None:
        self._command = [cluster.program("kubectl"), "--kubeconfig", str(cluster.kubeconfig)]

    def __call__(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def read(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    with temporary_cluster("webrtc", nodes=1) as cluster:
        for app in images():
            load(build_app(app).archive, nodes_of([cluster]))
        kubectl = Kubectl(cluster)
        kubectl("create", "namespace", "edgewise-turn")
        kubectl(
            *("-n", "edgewise-turn", "create", "secret", "generic", "turn"),
            f"--from-literal=secret={SECRET}",
        )
        kubectl("apply", "-k", str(ROOT / "deploy" / "turn"))
        kubectl("apply", "-f", "-", given=json.dumps(detector_pod()))
        kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/detector")
        kubectl("-n", "edgewise-turn", "rollout", "status", "deployment/turn", "--timeout=60s")
        yield kubectl


def detector_pod() -> dict[str, Any]:
    """The pod that a session would get."""
    template = yaml.safe_load((EXAMPLE / "session-template.yaml").read_text())
    (pods,) = template["spec"]["podTemplates"]
    metadata = {"name": "detector", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pods["template"]["spec"],
    }


async def test_a_client_outside_connects_through_the_one_port(kubectl: Kubectl) -> None:
    (node,) = kubectl.read("get", "nodes")["items"]
    (address,) = [a for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
    realm = TurnRealm((f"turn:{address['address']}:{NODE_PORT}",), SECRET)
    issued = realm.credentials("alice", now=time.time())
    turn = Turn(list(issued.urls), issued.username, issued.credential)
    pod = kubectl.read("get", "pod", "detector")
    report = await measure(
        Target(f"http://{pod['status']['podIP']}:8080", "alice", [turn]), FILMING
    )
    assert report.ok, report
    assert report.relayed


def test_the_secret_is_neither_in_a_command_line_nor_in_a_log(kubectl: Kubectl) -> None:
    inside = ("-n", "edgewise-turn", "exec", "deployment/turn", "--")
    assert SECRET in kubectl(*inside, "cat", "/tmp/turnserver.conf")
    assert SECRET not in kubectl(*inside, "sh", "-c", "cat /proc/[0-9]*/cmdline")
    assert SECRET not in kubectl("-n", "edgewise-turn", "logs", "deployment/turn")
