"""The commands beside `up` and `down`, against a running cluster."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from edgewise.local import faults
from edgewise.local.clusters import LocalCluster

pytestmark = pytest.mark.root

EDGEWISE = [sys.executable, "-m", "edgewise.cli", "local"]


def edgewise(*arguments: str) -> str:
    done = subprocess.run(
        [*EDGEWISE, *arguments], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_status_tells_of_components_nodes_and_memory(cluster: LocalCluster) -> None:
    seen = json.loads(edgewise("status", "--name", cluster.name, "--json"))
    assert seen["ready"], seen
    states = {part["name"]: part["state"] for part in seen["components"]}
    assert set(states) == set(faults.component_names(cluster))
    assert set(states.values()) == {"running"}
    kinds = {node["name"]: node["kind"] for node in seen["nodes"]}
    assert kinds == dict.fromkeys(cluster.spec.node_names, "real") | dict.fromkeys(
        cluster.spec.simulated_names, "simulated"
    )
    assert 100 << 20 < seen["memory"] < 3 << 30
    text = edgewise("status", "--name", cluster.name)
    assert cluster.spec.node_names[0] in text
    assert "kube-apiserver" in text


def test_status_at_a_terminal_goes_on_until_it_is_interrupted(cluster: LocalCluster) -> None:
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [*EDGEWISE, "status", "--name", cluster.name],
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "60"},
    ) as shown:
        os.close(theirs)
        text, deadline = b"", time.monotonic() + 30
        try:
            # The table is drawn again and again: its heading appears more than once.
            while text.count(b"component") < 3 and time.monotonic() < deadline:
                if select.select([mine], [], [], 1)[0]:
                    text += os.read(mine, 65536)
            assert text.count(b"component") >= 3, text
        finally:
            shown.send_signal(signal.SIGINT)
            while select.select([mine], [], [], 0.2)[0]:
                try:
                    os.read(mine, 65536)
                except OSError:
                    break  # the other side has closed it
            shown.wait(timeout=30)
            os.close(mine)
    assert shown.returncode == 130


def test_list_says_how_to_reach_it(cluster: LocalCluster) -> None:
    found = {each["name"]: each for each in json.loads(edgewise("list", "--json"))}
    mine = found[cluster.name]
    assert mine["running"]
    assert mine["server"] == cluster.server
    assert list(mine["node_addresses"]) == cluster.spec.node_names
    assert edgewise("kubeconfig", "--name", cluster.name, "--path").strip() == str(
        cluster.kubeconfig
    )
    assert cluster.server in edgewise("kubeconfig", "--name", cluster.name)


def test_logs_show_the_last_lines(cluster: LocalCluster) -> None:
    node = cluster.spec.node_names[0]
    lines = edgewise("logs", "--name", cluster.name, f"{node}/kubelet", "-n", "3").splitlines()
    assert len(lines) == 3


def test_the_doctor_finds_this_machine_fit() -> None:
    checks = {check["name"]: check for check in json.loads(edgewise("doctor", "--json"))}
    needed = {"engine", "root", "packages", "namespaces", "virtual cables", "packet filter"}
    assert needed <= set(checks)
    # What a killed test left behind says nothing about the machine.
    assert [each for each in checks.values() if each["hinders"] and not each["good"]] == []
