"""Allocations through two replicas of the server, beside merge patches of the same Servers.

Callers and patches take turns on the same servers: a machine that gets slower does so for both.
After each round every server is given back, and the operator makes it Ready again.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import aiohttp
import msgspec

from edgewise.api.games import Allocation, Server, ServerState
from edgewise.bench.gameservers.phases import middle_ratio
from edgewise.bench.pacing import at_rate
from edgewise.bench.summary import summary
from edgewise.kube.client import Client
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

Tell = Callable[[str], None]

PATIENCE = 300.0
# So many of a hundred calls are sent twice at once, to both replicas.
TWICE = 5
# Latencies: so many passes that alternate with their floor, of so many calls each.
PASSES = 5
PACED = 300
# Of what operator and server write; Leases are not counted.
WRITTEN = ("servers", "fleets", "gametypes", "allocations", "pods", "events", "configmaps")
_COUNT = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    servers: int
    allocations: int
    callers: int
    rate: float  # calls a second, for their latency


class AllocateBench:
    def __init__(
        self,
        client: Client,
        amount: Amount,
        *,
        namespace: str,
        game: str,
        urls: list[str],
        token: str,
        tell: Tell,
    ) -> None:
        self._client = client
        self._amount = amount
        self._namespace = namespace
        self._game = game
        self._paths = [f"{url}/v1/games/{game}/allocations" for url in urls]
        self._token = token
        self._tell = tell
        self._matches = itertools.count()
        self._statuses: Counter[int] = Counter()
        self._by_match: dict[str, set[str]] = {}
        self._held: dict[str, str] = {}  # server to match
        self._duplicates = 0

    async def run(self) -> dict[str, Any]:
        caches = SharedCaches(self._client)
        here = Selection(namespace=self._namespace)
        self._servers: Cache[Server] = caches.of(Server, here)
        self._allocations: Cache[Allocation] = caches.of(Allocation, here)
        following = asyncio.create_task(caches.run())
        headers = {"Authorization": f"Bearer {self._token}"}
        connector = aiohttp.TCPConnector(limit=0)
        try:
            async with aiohttp.ClientSession(headers=headers, connector=connector) as self._http:
                return await self._measured()
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def _measured(self) -> dict[str, Any]:
        amount = self._amount
        await self._until_idle()
        allocated: list[float] = []
        patched: list[float] = []
        writes = made = 0
        while made < amount.allocations:
            number = min(amount.servers, amount.allocations - made)
            patched.append(await self._flat_out(number, self._patch))
            before = await self._writes()
            allocated.append(await self._flat_out(number, self._allocate))
            await self._until(lambda: self._counted(ServerState.ALLOCATED) >= len(self._held))
            writes += await self._writes() - before
            made += number
            self._tell(
                f"{made} allocations: {allocated[-1]:.0f}/s beside {patched[-1]:.0f} patches/s"
            )
            await self._give_back()
        figures = await self._latencies()
        per_s, raw = median(allocated), median(patched)
        return {
            "servers": amount.servers,
            "allocations": made,
            "callers": amount.callers,
            "replicas": len(self._paths),
            "per_s": round(per_s, 1),
            "raw_patches_per_s": round(raw, 1),
            "ratio": middle_ratio(allocated, patched),
            **figures,
            "duplicates": self._duplicates + self._several(),
            "errors_5xx": sum(n for status, n in self._statuses.items() if status >= 500),
            "statuses": {str(status): n for status, n in sorted(self._statuses.items())},
            "writes_per_allocation": round(writes / made, 3),
        }

    # One call ---------------------------------------------------------------------------

    async def _allocate(self, number: int) -> None:
        match = f"m{next(self._matches)}-{secrets.token_hex(3)}"
        paths = [self._paths[number % len(self._paths)]]
        if number % 100 < TWICE:
            paths = self._paths[:2]
        for answer in await asyncio.gather(*(self._call(path, match) for path in paths)):
            if answer is not None:
                self._note(match, answer)

    async def _call(self, path: str, match: str) -> dict[str, Any] | None:
        """One caller's call, who comes back as long as it is told to."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            async with self._http.post(path, json={"match": match}) as answer:
                self._statuses[answer.status] += 1
                if answer.status in (200, 201):
                    found: dict[str, Any] = await answer.json()
                    return found
                wait = float(answer.headers.get("Retry-After", "1"))
                await answer.read()
            await asyncio.sleep(wait)
        return None

    def _note(self, match: str, answer: dict[str, Any]) -> None:
        server = answer["server"]
        self._by_match.setdefault(match, set()).add(answer["uid"])
        if self._held.setdefault(server, match) != match:
            self._duplicates += 1

    def _several(self) -> int:
        """Matches that were told of several servers."""
        return sum(len(uids) > 1 for uids in self._by_match.values())

    async def _patch(self, number: int) -> None:
        server = self._servers.all()[number % len(self._servers)]
        await self._client.patch(
            Server,
            server.metadata.name,
            self._namespace,
            body={"metadata": {"annotations": {"bench": secrets.token_hex(4)}}},
        )

    # Many -------------------------------------------------------------------------------

    async def _flat_out(self, number: int, action: Callable[[int], Awaitable[None]]) -> float:
        """How many a second, by all callers."""
        numbers = iter(range(number))

        async def caller() -> None:
            for each in numbers:
                await action(each)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(self._amount.callers)))
        return number / (time.perf_counter() - began)

    async def _latencies(self) -> dict[str, Any]:
        amount = self._amount
        number = min(amount.servers, PACED)

        async def paced(action: Callable[[int], Awaitable[None]]) -> dict[str, float]:
            times: list[float] = []

            async def timed(each: int) -> None:
                began = time.perf_counter()
                await action(each)
                times.append((time.perf_counter() - began) * 1000)

            await at_rate(amount.rate, number, timed)
            return summary(times, digits=2)

        floors: list[dict[str, float]] = []
        found: list[dict[str, float]] = []
        for _ in range(PASSES):
            floors.append(await paced(self._patch))
            found.append(await paced(self._allocate))
            await self._give_back()
        return {
            "p50_ms": median(each["p50"] for each in found),
            "floor_p50_ms": median(each["p50"] for each in floors),
            "p99_ms": median(each["p99"] for each in found),
            "floor_p99_ms": median(each["p99"] for each in floors),
            "p99_ratio": middle_ratio(
                (each["p99"] for each in found), (each["p99"] for each in floors)
            ),
        }

    async def _give_back(self) -> None:
        matches = list(self._held.values())

        async def release(number: int) -> None:
            path = self._paths[number % len(self._paths)]
            async with self._http.delete(f"{path}/{matches[number]}") as answer:
                await answer.read()
                if answer.status != 204:
                    raise RuntimeError(f"{matches[number]} was not released: {answer.status}")

        if matches:
            await self._flat_out(len(matches), release)
        self._held.clear()
        await self._until_idle()

    async def _until_idle(self) -> None:
        wanted = self._amount.servers
        await self._until(
            lambda: not len(self._allocations) and self._counted(ServerState.READY) >= wanted
        )

    def _counted(self, state: ServerState) -> int:
        return sum(each.status.state == state for each in self._servers)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                states = dict(Counter(each.status.state for each in self._servers))
                raise RuntimeError(
                    f"the servers did not come to rest: {states}, "
                    f"{len(self._allocations)} allocations"
                )
            await asyncio.sleep(0.1)

    async def _writes(self) -> int:
        """What was written so far, as the API server counts it."""
        text = (await self._client.request("GET", "/metrics")).decode()
        total = 0.0
        for found in _COUNT.finditer(text):
            labels = dict(_LABEL.findall(found["labels"]))
            wrote = labels.get("verb") in ("POST", "PUT", "PATCH", "APPLY", "DELETE")
            carried_out = labels.get("code", "").startswith("2")
            if wrote and carried_out and labels.get("resource") in WRITTEN:
                total += float(found["value"])
        return int(total)
