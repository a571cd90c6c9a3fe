"""How long a fleet is without a server that is gone, beside a bare pod with the same sidecar."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from edgewise.api.games import Fleet, Server
from edgewise.bench.summary import ratio
from edgewise.gameservers import names
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.local.images.building import PYTHON_IMAGE

Tell = Callable[[str], None]

NAMESPACE = "replacement"
SLEEP = (
    "import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); "
    "time.sleep(1e6)"
)
PATIENCE = 120.0
LOOK_SECONDS = 0.02


class ReplacementBench:
    def __init__(self, client: Client, tell: Tell) -> None:
        self._client = client
        self._tell = tell

    async def run(self, rounds: int) -> dict[str, Any]:
        await self._client.create(Namespace.named(NAMESPACE))
        await self._client.apply(_fleet())
        server = await self._ready(but="")
        manifest = await self._client.get(Pod, names.pod_of(server), NAMESPACE)
        replaced, bare = [], []
        for _ in range(rounds):
            bare.append(await self._bare(manifest))
            began = time.monotonic()
            await self._client.delete(Server, server, NAMESPACE)
            server = await self._ready(but=server)
            replaced.append(time.monotonic() - began)
        replace_s, pod_s = statistics.median(replaced), statistics.median(bare)
        self._tell(f"replaced in {replace_s:.2f} s; a bare pod with the sidecar {pod_s:.2f} s")
        return {
            "rounds": rounds,
            "replace_s": round(replace_s, 3),
            "sidecar_pod_s": round(pod_s, 3),
            "replace_ratio": ratio(replace_s, pod_s),
        }

    async def _ready(self, *, but: str) -> str:
        """A ready server that is another one than `but`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for each in (await self._client.list(Server, NAMESPACE)).items:
                    if each.status.state == "Ready" and each.metadata.name != but:
                        return each.metadata.name
                await asyncio.sleep(LOOK_SECONDS)

    async def _bare(self, like: Pod) -> float:
        """The same pod, with its sidecar, made by hand; from its creation to ready."""
        spec = {
            name: like.spec[name]
            for name in ("containers", "initContainers", "volumes", "restartPolicy")
            if name in like.spec
        }
        # The volume of the account's token was put in by the API server, and is again.
        spec["volumes"] = [
            each for each in spec["volumes"] if not each["name"].startswith("kube-api-access")
        ]
        spec = msgspec.json.decode(msgspec.json.encode(spec))
        for container in (*spec["containers"], *spec["initContainers"]):
            container["volumeMounts"] = [
                each
                for each in container.get("volumeMounts", [])
                if not each["name"].startswith("kube-api-access")
            ]
        spec["serviceAccountName"] = "default"
        began = time.monotonic()
        await self._client.create(Pod.named("bare", NAMESPACE, spec=spec))
        async with asyncio.timeout(PATIENCE):
            while True:
                if (await self._client.get(Pod, "bare", NAMESPACE)).ready:
                    break
                await asyncio.sleep(LOOK_SECONDS)
        took = time.monotonic() - began
        await self._client.delete(Pod, "bare", NAMESPACE, grace_seconds=0)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self._client.get(Pod, "bare", NAMESPACE)
                except NotFound:
                    return took
                await asyncio.sleep(LOOK_SECONDS)


def _fleet() -> dict[str, Any]:
    container = {"name": "game", "image": PYTHON_IMAGE, "command": ["python3", "-c", SLEEP]}
    return {
        "apiVersion": Fleet.KIND.api_version,
        "kind": "Fleet",
        "metadata": {"name": "arena", "namespace": NAMESPACE},
        "spec": {
            "scaling": {"replicas": 1},
            "spec": {"pod": {"containers": [container]}, "deletion": {"idle": "Allow"}},
        },
    }
