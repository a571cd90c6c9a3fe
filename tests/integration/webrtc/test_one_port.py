"""As in a cluster: the client reaches one UDP port of the TURN server, and no pod.

Three network namespaces: client, TURN server, pod. The TURN server's one also forwards TCP, as
a gateway does for the signalling, and drops every other packet between the two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.webrtc.coturn import Coturn

pytestmark = pytest.mark.root

EXAMPLE = Path(__file__).parents[3] / "examples" / "webrtc-detector"
CLIENT, TURN_OUTSIDE = "10.77.1.2", "10.77.1.1"
POD, TURN_INSIDE = "10.77.2.2", "10.77.2.1"
FIREWALL = """
table ip one-port {
  chain forward {
    type filter hook forward priority 0; policy drop
    meta l4proto tcp accept
  }
}
"""


class Namespace:
    """A network namespace for as long as a process of its own lives."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "300"])
        mine = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 10
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == mine:
            assert time.monotonic() < deadline, "no new network namespace"
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def enter(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--"]

    def run(self, *command: str, given: str = "") -> str:
        done = subprocess.run(
            [*self.enter, *command],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait(5)


def join(middle: Namespace, end: Namespace, here: str, there: str) -> None:
    name = f"to-{end.holder.pid}"
    middle.run(
        *("ip", "link", "add", name, "type", "veth"),
        *("peer", "name", "eth0", "netns", str(end.holder.pid)),
    )
    middle.run("ip", "address", "add", f"{here}/24", "dev", name)
    middle.run("ip", "link", "set", name, "up")
    end.run("ip", "address", "add", f"{there}/24", "dev", "eth0")
    end.run("ip", "link", "set", "eth0", "up")
    end.run("ip", "route", "add", "default", "via", here)


def until_it_works(namespace: Namespace, *command: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(
            [*namespace.enter, *command], capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, f"{command}: {done.stdout}{done.stderr}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Namespace, Coturn]]:
    with ExitStack() as undo:
        client, middle, pod = Namespace(), Namespace(), Namespace()
        for namespace in (client, middle, pod):
            undo.callback(namespace.close)
        join(middle, client, TURN_OUTSIDE, CLIENT)
        join(middle, pod, TURN_INSIDE, POD)
        middle.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        middle.run("nft", "-f", "-", given=FIREWALL)
        coturn = Coturn(
            tmp_path_factory.mktemp("coturn"),
            listen=TURN_OUTSIDE,
            relay=TURN_INSIDE,
            peers=[f"{POD}-{POD}"],
            port=3478,
            prefix=middle.enter,
        )
        undo.callback(coturn.stop)
        server = subprocess.Popen(
            [*pod.enter, sys.executable, "-m", "webrtc_detector.server"],
            cwd=EXAMPLE,
            env={**os.environ, "PORT": "8080", "HOST": POD},
        )
        undo.callback(server.wait, 10)
        undo.callback(server.terminate)
        until_it_works(client, "timeout", "1", "turnutils_stunclient", TURN_OUTSIDE)
        until_it_works(client, "python3", "-c", PROBE)
        yield client, coturn


PROBE = f"import urllib.request as r; r.urlopen('http://{POD}:8080/healthz', timeout=2).read()"


def run_client(
    world: tuple[Namespace, Coturn], *, turn: bool, deadline: int = 20
) -> tuple[int, dict[str, Any]]:
    client, coturn = world
    environment = dict(os.environ)
    command = [sys.executable, "-m", "webrtc_detector.client", f"http://{POD}:8080", "--json"]
    command += ["--size", "320x180", "--seconds", "2", "--deadline", str(deadline)]
    if turn:
        login = coturn.realm().credentials("alice", now=time.time())
        environment |= {"TURN_USERNAME": login.username, "TURN_PASSWORD": login.credential}
        command += ["--turn", coturn.url]
    done = subprocess.run(
        [*client.enter, *command],
        cwd=EXAMPLE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.stdout, done.stderr
    (report,) = json.loads(done.stdout)
    return done.returncode, report


def test_through_turn_the_pod_is_reached_though_it_knows_nothing_of_turn(
    world: tuple[Namespace, Coturn],
) -> None:
    code, report = run_client(world, turn=True)
    assert (code, report["reason"]) == (0, ""), report
    assert report["relayed"]
    assert report["found"] > 0


def test_without_turn_the_pod_is_not_reached(world: tuple[Namespace, Coturn]) -> None:
    code, report = run_client(world, turn=False, deadline=4)
    assert (code, report["reason"]) == (6, "not-connected"), report
    assert "use TURN" in report["message"]
