"""Pods that answer TCP and UDP, and what of a packet from one to another arrives."""

import asyncio
import json
import time
from typing import Any

from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.errors import Unavailable

TCP, UDP = 8080, 5000
PROTOCOLS = ("TCP", "UDP")
_SERVE = f"""
import socket, threading

def echo():
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("", {UDP}))
    while True:
        data, back = end.recvfrom(100)
        end.sendto(data, back)

threading.Thread(target=echo, daemon=True).start()
door = socket.create_server(("", {TCP}))
while True:
    door.accept()[0].close()
"""
_TRY = f"""
import json, socket, sys
address, seconds = sys.argv[1], float(sys.argv[2])
arrived = []
try:
    socket.create_connection((address, {TCP}), seconds).close()
    arrived.append("TCP")
except OSError:
    pass
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    end.settimeout(seconds / 3)
    for _ in range(3):
        try:
            end.sendto(b"?", (address, {UDP}))
            end.recv(10)
            arrived.append("UDP")
            break
        except OSError:
            pass
print(json.dumps(arrived))
"""
_POLL_SECONDS = 0.1


def probe(name: str, namespace: str, image: str, *, pull: str = "IfNotPresent") -> Pod:
    """A pod that answers, and from which others can be tried."""
    container: dict[str, Any] = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": pull,
        "command": ["python3", "-c", _SERVE],
        "readinessProbe": {"tcpSocket": {"port": TCP}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec={
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    )


async def ready(client: Client, pod: Pod, timeout: float) -> Pod:
    until = time.monotonic() + timeout
    while True:
        found = await client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        if found.ready and found.status.pod_ip:
            return found
        if time.monotonic() > until:
            raise Unavailable(
                f"the pod {pod.metadata.namespace}/{pod.metadata.name} is not ready after "
                f"{timeout:.0f} s: {_why(found)}"
            )
        await asyncio.sleep(_POLL_SECONDS)


def _why(pod: Pod) -> str:
    waiting = [each.state.get("waiting") or {} for each in pod.status.container_statuses]
    said = [f"{each.get('reason')} {each.get('message', '')}".strip() for each in waiting if each]
    said += [each.message for each in pod.status.conditions if each.message]
    return said[0] if said else pod.status.phase


async def arrives(client: Client, sender: Pod, to: Pod, seconds: float = 1.5) -> list[str]:
    """By which protocols one pod reaches another."""
    command = ["python3", "-c", _TRY, to.status.pod_ip, str(seconds)]
    meta = sender.metadata
    answer = await client.exec(meta.name, meta.namespace, command)
    if answer.exit_code != 0:
        told = answer.stderr.decode(errors="replace").strip()
        raise Unavailable(f"nothing could be tried from {meta.namespace}/{meta.name}: {told}")
    found: list[str] = json.loads(answer.stdout)
    return found
