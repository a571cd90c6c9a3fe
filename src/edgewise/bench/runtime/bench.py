"""What the runtime costs: a controller that copies a field, beside a bare client.

Both are processes of their own, on the same objects, at the same rate, one after the other.

- cold start: from the start of the process until every object was reconciled (the floor:
  listed) once. All objects are as they should be, so nothing is written.
- latency: from the API server's answer to a change of the spec until somebody who watches
  sees the status. The floor: from sending a patch of the status to its answer.
- CPU and memory: of the process, as the kernel counts them.
- machine: how busy all cores were while changes were made, and what the host gave to others.

The objects that are changed carry no managed fields: keeping those up to date is half of
what such a write costs the API server, which would be measured rather than the runtime where
it has only the two cores that it shares with everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from edgewise.api.crd import crd_of
from edgewise.api.installation import install
from edgewise.bench.machine_load import MUCH_STOLEN_PERCENT, MachineLoad
from edgewise.bench.measured_program import MeasuredProgram, measured
from edgewise.bench.operator_metrics import read_metrics
from edgewise.bench.pacing import at_rate
from edgewise.bench.runtime.account import access_of, account_token, until_known
from edgewise.bench.runtime.copies import Copy, copy_name
from edgewise.bench.runtime.copy_controller import RECONCILED
from edgewise.bench.summary import percentile, ratio
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

Tell = Callable[[str], None]
Figures = dict[str, float | None]
Load = dict[str, float]

WRITERS = 32
WARM_UP_SECONDS = 3.0
LAST_STATUS_SECONDS = 30.0


class BenchFailed(ReadableError):
    """It could not be measured, with what to do about it."""


class RuntimeBench(msgspec.Struct, frozen=True):
    kubeconfig: Path
    context: str  # in that file; empty for its current one
    objects: int
    rate: float
    seconds: float
    tell: Tell

    @property
    def changes(self) -> int:
        return max(1, int(self.rate * self.seconds))

    async def run(self) -> dict[str, Any]:
        async with Client(load_access(self.kubeconfig, self.context)) as owner:
            namespace = f"bench-{secrets.token_hex(4)}"
            try:
                await self._prepare(owner, namespace)
                async with (
                    account_token(owner, namespace) as token,
                    Client(access_of(self.kubeconfig, self.context, token)) as client,
                ):
                    await until_known(client, namespace)
                    arguments = (str(self.kubeconfig), self.context, str(token), namespace)
                    runtime, beside_runtime = await self._measure_runtime(
                        client, namespace, arguments
                    )
                    floor, beside_floor = await self._measure_floor(arguments)
            finally:
                await _clean_up(owner, namespace)
        ratios = {name: ratio(runtime[name], floor[name]) for name in runtime}
        return {
            **runtime,
            "floor": floor,
            "ratios": ratios,
            "machine": {"runtime": beside_runtime, "floor": beside_floor},
            "objects": self.objects,
            "rate": self.rate,
            "changes": self.changes,
        }

    async def _prepare(self, client: Client, namespace: str) -> None:
        self.tell(f"making {self.objects} objects")
        await install(client, [Copy])
        await client.create(Namespace.named(namespace))

        async def make(number: int) -> None:
            await client.create(Copy.named(copy_name(number), namespace))

        async def clear(number: int) -> None:
            body: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
            await client.patch(Copy, copy_name(number), namespace, body=body)

        await self._write_all(self.objects, make)
        changed = min(self.objects, self.changes)
        self.tell(f"clearing the managed fields of the {changed} that will be changed")
        await self._write_all(changed, clear)

    async def _write_all(self, count: int, write: Callable[[int], Awaitable[None]]) -> None:
        numbers = iter(range(count))

        async def some() -> None:
            for number in numbers:
                await write(number)
                if (number + 1) % 2000 == 0:
                    self.tell(f"  {number + 1} of {count}")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(some())

    # The runtime --------------------------------------------------------------------

    async def _measure_runtime(
        self, client: Client, namespace: str, arguments: tuple[str, ...]
    ) -> tuple[Figures, Load]:
        self.tell("starting the controller")
        async with (
            measured(
                "edgewise.bench.runtime.copy_controller", *arguments, str(self.objects)
            ) as program,
            aiohttp.ClientSession() as http,
        ):
            said, _, metrics_url = (await program.line()).partition(" ")
            cold_start = program.age
            if said != RECONCILED:
                raise BenchFailed(f"the controller said something unexpected: {said}")
            self.tell(f"  cold start {cold_start:.2f} s")
            async with watching_statuses(client, namespace) as changes:
                await self._change(client, namespace, changes, "warm", WARM_UP_SECONDS)
                changes.latencies.clear()
                before = await _requests_when_idle(http, metrics_url)
                program.begin()
                machine = MachineLoad.now()
                self.tell(f"changing {self.rate:g} a second for {self.seconds:g} s")
                await self._change(client, namespace, changes, "change", self.seconds)
                cpu, rss = program.cpu_percent(), program.rss_mb()
                load = self._told(machine)
                after = await _requests_when_idle(http, metrics_url)
                requests = (after - before) / self.changes
                return _figures(cold_start, changes.latencies, cpu, rss, requests), load

    def _told(self, since: MachineLoad) -> Load:
        load = since.until(MachineLoad.now())
        if load["stolen_percent"] > MUCH_STOLEN_PERCENT:
            self.tell(
                f"  meanwhile the host gave {load['stolen_percent']} % of this machine to others: "
                "latencies are theirs, too"
            )
        return load

    async def _change(
        self, client: Client, namespace: str, changes: Changes, word: str, seconds: float
    ) -> None:
        async def change(number: int) -> None:
            name, value = copy_name(number % self.objects), f"{word}-{number}"
            changes.expect(name, value)
            await client.patch(Copy, name, namespace, body={"spec": {"value": value}})
            changes.answered(name, value)

        await at_rate(self.rate, max(1, int(self.rate * seconds)), change)
        try:
            async with asyncio.timeout(LAST_STATUS_SECONDS):
                await changes.all_seen()
        except TimeoutError:
            raise BenchFailed(
                f"{changes.missing} changes were not in a status after "
                f"{LAST_STATUS_SECONDS:.0f} s: the machine is too busy, or lower --rate"
            ) from None

    # The floor ----------------------------------------------------------------------

    async def _measure_floor(self, arguments: tuple[str, ...]) -> tuple[Figures, Load]:
        self.tell("the floor: a bare client that patches as many statuses")
        async with measured(
            "edgewise.bench.runtime.bare_patcher", *arguments, str(self.rate), str(self.changes)
        ) as program:
            said = await program.line()
            cold_start = program.age
            if said != RECONCILED:
                raise BenchFailed(f"the bare client said something unexpected: {said}")
            return await self._patch_barely(program, cold_start)

    async def _patch_barely(
        self, program: MeasuredProgram, cold_start: float
    ) -> tuple[Figures, Load]:
        program.begin()
        machine = MachineLoad.now()
        program.go_on()
        latencies = msgspec.json.decode(
            await program.line(within=self.seconds * 3 + 60), type=list[float]
        )
        load = self._told(machine)
        figures = _figures(cold_start, latencies, program.cpu_percent(), program.rss_mb(), 1.0)
        return figures, load


async def _requests_when_idle(http: aiohttp.ClientSession, url: str) -> float:
    """A status is seen a moment before the controller counts the request that wrote it."""
    deadline = time.monotonic() + LAST_STATUS_SECONDS
    while True:
        metrics = await read_metrics(http, url)
        if metrics.idle:
            return metrics.total("edgewise_api_requests_total")
        if time.monotonic() > deadline:
            raise BenchFailed("the controller does not come to rest: lower --rate")
        await asyncio.sleep(0.05)


class Changes:
    """Waits for the status of each change, and measures how long it took."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._answered: dict[tuple[str, str], float] = {}
        self._missing: set[tuple[str, str]] = set()
        self._seen_early: dict[tuple[str, str], float] = {}
        self._all_seen = asyncio.Event()

    def expect(self, name: str, value: str) -> None:
        self._missing.add((name, value))
        self._all_seen.clear()

    def answered(self, name: str, value: str) -> None:
        """The API server has accepted the change."""
        now = time.perf_counter()
        seen = self._seen_early.pop((name, value), None)
        if seen is not None:
            # So fast that its status came before the answer was read.
            self.latencies.append(0.0)
        else:
            self._answered[name, value] = now

    def changed(self, _old: Copy | None, new: Copy | None, _bulk: bool) -> None:
        if new is None:
            return
        change = (new.metadata.name, new.status.value)
        if change not in self._missing:
            return
        self._missing.remove(change)
        now = time.perf_counter()
        answered = self._answered.pop(change, None)
        if answered is None:
            self._seen_early[change] = now
        else:
            self.latencies.append(now - answered)
        if not self._missing:
            self._all_seen.set()

    @property
    def missing(self) -> int:
        return len(self._missing)

    async def all_seen(self) -> None:
        if self._missing:
            await self._all_seen.wait()


@contextlib.asynccontextmanager
async def watching_statuses(client: Client, namespace: str) -> AsyncIterator[Changes]:
    caches = SharedCaches(client)
    cache = caches.of(Copy, Selection(namespace=namespace))
    running = asyncio.create_task(caches.run())
    try:
        await caches.wait_synced()
        changes = Changes()
        cache.subscribe(changes.changed)
        yield changes
    finally:
        running.cancel()
        await asyncio.wait((running,))


def _figures(
    cold_start: float, latencies: list[float], cpu: float, rss: float, requests: float
) -> Figures:
    ordered = sorted(latencies)
    return {
        "cold_start_s": round(cold_start, 3),
        "p50_ms": round(1000 * percentile(ordered, 0.5), 2),
        "p99_ms": round(1000 * percentile(ordered, 0.99), 2),
        "cpu_percent": round(cpu, 1),
        "rss_mb": round(rss, 1),
        "requests_per_change": round(requests, 3),
    }


async def _clean_up(client: Client, namespace: str) -> None:
    with contextlib.suppress(NotFound):
        await client.delete(CustomResourceDefinition, crd_of(Copy).metadata.name)
    with contextlib.suppress(NotFound):
        await client.delete(Namespace, namespace)
