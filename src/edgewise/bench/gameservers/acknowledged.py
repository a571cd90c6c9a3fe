"""Allocations that are answered when the game has acknowledged them, beside one PATCH.

On real pods: the word goes from the server to the API server, the operator, the sidecar and the
game, and all the way back.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import aiohttp

from edgewise.api.games import Allocation, Fleet, FleetSpec, Scaling, Server, ServerSpec
from edgewise.bench.gameservers.phases import middle_ratio, until
from edgewise.bench.pacing import at_rate
from edgewise.bench.summary import summary
from edgewise.kube.client import Client
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

Tell = Callable[[str], None]

RATE = 20.0
ACKNOWLEDGE = "10s"
# It follows its state, and acknowledges every allocation that is news to it.
PLAYER = """
import http.client, json, os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
place = os.environ["EDGEWISE_SDK_URL"].removeprefix("http://")
told = ""
while True:
    try:
        told_by = http.client.HTTPConnection(place, timeout=60)
        told_by.request("GET", "/watch")
        line_by_line = told_by.getresponse()
        says = http.client.HTTPConnection(place, timeout=60)
        while line := line_by_line.readline():
            if not line.startswith(b"data: "):
                continue
            allocation = (json.loads(line[6:]).get("allocation") or {}).get("uid", "")
            if allocation and allocation != told:
                says.request("POST", "/acknowledge", "{}")
                says.getresponse().read()
                told = allocation
    except (OSError, http.client.HTTPException):
        time.sleep(0.1)
"""


class AcknowledgedBench:
    def __init__(
        self,
        client: Client,
        *,
        servers: int,
        allocations: int,
        namespace: str,
        game: str,
        urls: list[str],
        token: str,
        tell: Tell,
    ) -> None:
        self._client = client
        self._number = servers
        self._passes = max(1, allocations // servers)
        self._namespace = namespace
        self._game = game
        self._paths = [f"{url}/v1/games/{game}/allocations" for url in urls]
        self._token = token
        self._tell = tell
        self._names = itertools.count()
        self._matches: list[str] = []
        self._statuses: Counter[int] = Counter()

    async def run(self) -> dict[str, Any]:
        caches = SharedCaches(self._client)
        here = Selection(namespace=self._namespace)
        self._servers: Cache[Server] = caches.of(Server, here)
        self._allocations: Cache[Allocation] = caches.of(Allocation, here)
        following = asyncio.create_task(caches.run())
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with aiohttp.ClientSession(headers=headers) as self._http:
                return await self._measured()
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def _measured(self) -> dict[str, Any]:
        self._tell(f"making {self._number} servers")
        await self._client.create(
            Fleet.named(self._game, self._namespace, spec=_fleet(self._number))
        )
        await self._idle()
        await self._paced(self._allocate)  # once before it counts: games and replicas are warm
        await self._give_back()
        asked: list[dict[str, float]] = []
        patched: list[dict[str, float]] = []
        for _ in range(self._passes):
            patched.append(await self._paced(self._patch))
            asked.append(await self._paced(self._allocate))
            await self._give_back()
        ack, patch = median(each["p50"] for each in asked), median(e["p50"] for e in patched)
        self._tell(f"acknowledged after {ack:.1f} ms; a PATCH takes {patch:.1f} ms")
        return {
            "servers": self._number,
            "allocations": self._passes * self._number,
            "rate": RATE,
            "ack_p50_ms": round(ack, 2),
            "ack_max_ms": max(each["max"] for each in asked),
            "patch_ms": round(patch, 2),
            "ack_ratio": middle_ratio((e["p50"] for e in asked), (e["p50"] for e in patched)),
            "statuses": {str(status): n for status, n in sorted(self._statuses.items())},
        }

    async def _paced(self, action: Callable[[int], Awaitable[None]]) -> dict[str, float]:
        times: list[float] = []

        async def timed(number: int) -> None:
            began = time.perf_counter()
            await action(number)
            times.append((time.perf_counter() - began) * 1000)

        await at_rate(RATE, self._number, timed)
        return summary(times, digits=2)

    async def _allocate(self, number: int) -> None:
        match = f"m{next(self._names)}-{secrets.token_hex(3)}"
        path = self._paths[number % len(self._paths)]
        async with self._http.post(path, json={"match": match}) as answer:
            self._statuses[answer.status] += 1
            if answer.status != 201:
                raise RuntimeError(f"{match} got no server: {await answer.text()}")
            await answer.read()
        self._matches.append(match)

    async def _patch(self, number: int) -> None:
        server = self._servers.all()[number % len(self._servers)]
        body = {"metadata": {"annotations": {"bench": secrets.token_hex(4)}}}
        await self._client.patch(Server, server.metadata.name, self._namespace, body=body)

    async def _give_back(self) -> None:
        for match in self._matches:
            async with self._http.delete(f"{self._paths[0]}/{match}") as answer:
                await answer.read()
        self._matches.clear()
        await self._idle()
        # The caches of the replicas follow within milliseconds.
        await asyncio.sleep(0.5)

    async def _idle(self) -> None:
        await until(
            lambda: (
                not len(self._allocations)
                and sum(each.status.state == "Ready" for each in self._servers) >= self._number
            ),
            (self._allocations, self._servers),
        )


def _fleet(servers: int) -> FleetSpec:
    container = {"name": "game", "image": PYTHON_IMAGE, "command": ["python3", "-c", PLAYER]}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 1}
    spec = ServerSpec(pod=pod, acknowledge=ACKNOWLEDGE)
    return FleetSpec(scaling=Scaling(replicas=servers), spec=spec)
