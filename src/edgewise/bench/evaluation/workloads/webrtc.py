"""The WebRTC sample: an offer, an answer, a relay, a film, and boxes around a face on it.

A client is connected when the first right box has come back. All cases use the same coturn with
the same kind of credentials, so they differ in how a client finds its pod and in nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import msgspec

from edgewise.bench.evaluation.workloads.workload import NAMESPACE, Connection, Opened, Workload
from edgewise.bench.sessions.webrtc_films import Film, FilmFailed, Filming, Films
from edgewise.bench.sessions.webrtc_sample import (
    SIGNAL_PORT,
    cold_template,
    pod_spec,
    sample_template,
)
from edgewise.exposure.turn import TurnRealm
from edgewise.kube.client import Client
from edgewise.kube.errors import UNREADABLE_JSON, KubeError
from edgewise.kube.kinds.core import Pod
from edgewise.kube.paths import object_path

# Few pictures, because each costs both sides 30 ms of processor; long enough for any client.
FILMING = Filming(seconds=3600.0, rate=2, deadline=30.0)
TRY_SECONDS = 40.0  # a try, with its offer, its relay and its first box
MOST_BYTES = 64 * 1024


class WebrtcWorkload(Workload):
    port = SIGNAL_PORT

    def __init__(self, client: Client, films: Films, realm: TurnRealm) -> None:
        self._client = client
        self._films = films
        self._realm = realm

    def pod_spec(self) -> dict[str, Any]:
        return pod_spec(cold_template(sample_template(), NAMESPACE))

    def connection(self, client: str) -> Connection:
        return WebrtcConnection(client, self._client, self._films, self._realm)


class WebrtcConnection(Connection):
    def __init__(self, name: str, client: Client, films: Films, realm: TurnRealm) -> None:
        self._name = name
        self._client = client
        self._films = films
        self._realm = realm
        self._tries = itertools.count(1)
        self._film: tuple[str, Film] | None = None
        self._pod = ""

    async def open(self, url: str) -> Opened | None:
        """By a name of its own: what an earlier try still says is not taken for this one's."""
        await self.close()
        name = f"{self._name}-{next(self._tries)}"
        server = msgspec.to_builtins(self._realm.credentials(name, now=time.time()))
        target = {"url": url, "client": name, "iceServers": [server]}
        film = self._films.begin(target)
        self._film = name, film
        try:
            async with asyncio.timeout(TRY_SECONDS):
                at = await film.first_box()
                self._pod = await self._served_by(name)
        except (FilmFailed, KubeError, TimeoutError):
            await self.close()
            return None
        return Opened(self._pod, at) if self._pod else None

    async def holds(self) -> str:
        return self._pod if self._film is not None and not self._film[1].over else ""

    async def goodbye(self) -> None:
        await self.close()  # which the pod's end of the connection is told

    async def close(self) -> None:
        film, self._film, self._pod = self._film, None, ""
        if film is not None:
            self._films.stop(film[0])

    async def _served_by(self, name: str) -> str:
        """Through a Service nobody knows which pod it is; the pods know who their clients are."""
        for pod in (await self._client.list(Pod, NAMESPACE)).items:
            if pod.ready and name in await self._clients_of(pod.metadata.name):
                return pod.metadata.name
        return ""

    async def _clients_of(self, pod: str) -> dict[str, Any]:
        path = object_path(Pod.KIND, NAMESPACE, f"{pod}:{SIGNAL_PORT}", "proxy") + "/healthz"
        try:
            said = await self._client.request("GET", path, timeout=5, largest=MOST_BYTES)
            found: dict[str, Any] = msgspec.json.decode(said, type=dict[str, Any])["clients"]
        except (KubeError, KeyError, *UNREADABLE_JSON):
            return {}
        return found
