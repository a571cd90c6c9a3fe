"""Joins at scale, on simulated nodes: many sessions, a steady rate, and as fast as it goes.

The API server, the scheduler and the controllers are the real ones; only the kubelets are
not there, so what is measured is what Edgewise and the API server cost.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import msgspec

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.bench.operator_metrics import OperatorMetrics, read_metrics
from edgewise.bench.process_cost import rss_mb
from edgewise.bench.sessions.objects import NAMESPACE, session, template
from edgewise.bench.summary import ratio, summary
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.objects import Key
from edgewise.local.platform import Platform
from edgewise.runtime.awaiting import WaitedInVain, Waiting, watching
from edgewise.sessions.controller import SessionController

Tell = Callable[[str], None]

IMAGE = "edgewise.local/simulated:1"
CREATING = 32  # requests under way at once while the stage is set
FLAT_OUT = 24  # requests under way at once when the rate is as high as it goes
PATIENCE = 900.0


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    sessions: int
    clients: int
    seats: int  # clients that one pod serves
    rate: float  # joins a second; 0 is as many as possible
    seconds: float
    warm: int = 0  # warm pods; with them, each joining client takes one


class ScaleBench:
    def __init__(self, client: Client, platform: Platform, scale: Scale, tell: Tell) -> None:
        self._client = client
        self._platform = platform
        self._scale = scale
        self._tell = tell
        self._numbers = itertools.count()

    async def run(self) -> dict[str, Any]:
        scale = self._scale
        async with self._watching():
            await self._client.create(Namespace.named(NAMESPACE))
            await self._fill()
            figures: dict[str, Any] = {"sessions": scale.sessions, "clients": scale.clients}
            if scale.rate:
                figures |= await self._restart()
                figures |= await self._at_a_rate()
            else:
                figures |= await self._as_fast_as_possible()
            figures["rss_mb"] = round(rss_mb(self._platform.operator.pid), 1)
        return figures

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        async with (
            aiohttp.ClientSession() as self._http,
            watching(self._client, Session, SessionTemplate) as waits,
        ):
            self._sessions: Waiting[Session] = waits[0]
            self._templates: Waiting[SessionTemplate] = waits[1]
            yield

    async def _fill(self) -> None:
        """Sessions with their clients, all of them ready."""
        scale = self._scale
        await self._client.apply(
            template("scale", IMAGE, seats=scale.seats, warm=scale.warm, pod=_pod())
        )
        each = [scale.clients // scale.sessions] * scale.sessions
        for number in range(scale.clients % scale.sessions):
            each[number] += 1
        began = time.monotonic()
        manifests = (
            session(_name(number), "scale", {f"c{n}": _HERE for n in range(count)})
            for number, count in enumerate(each)
        )
        await _in_parallel([partial(self._client.apply, each) for each in manifests], CREATING)
        self._tell(f"{scale.sessions} sessions were made in {time.monotonic() - began:.0f} s")
        for number, count in enumerate(each):
            await self._sessions.until(
                Key(NAMESPACE, _name(number)),
                partial(_has_ready, count),
                f"session {_name(number)} with {count} clients ready",
                within=PATIENCE,
            )
        await self._until_warm()
        self._tell(f"all clients were ready after {time.monotonic() - began:.0f} s")

    async def _until_warm(self) -> None:
        """Nothing is left to do, and every warm pod is there."""
        warm = self._scale.warm
        await self._templates.until(
            Key(NAMESPACE, "scale"),
            lambda seen: seen is not None and (seen.status.warm or 0) >= warm,
            f"{warm} warm pods",
            within=PATIENCE,
        )
        await self._until_idle(0)

    async def _restart(self) -> dict[str, Any]:
        """From the start of a new operator's process until it has seen to every session.

        The old one ends in order, as in an upgrade: it hands over its lease.
        """
        await self._platform.operator.stop()
        began = time.perf_counter()
        await self._platform.operator.start(within=PATIENCE)
        await self._until_idle(self._scale.sessions)
        seconds = time.perf_counter() - began
        self._tell(f"a new operator had seen to all sessions after {seconds:.1f} s")
        return {"restart_s": round(seconds, 2)}

    async def _until_idle(self, reconciles: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            seen = await self._metrics()
            done = seen.total("edgewise_reconciles_total", controller=SessionController.__name__)
            if seen.idle and done >= reconciles:
                return
            await asyncio.sleep(0.1)
        raise WaitedInVain(f"the operator was not idle within {PATIENCE:.0f} s")

    async def _metrics(self) -> OperatorMetrics:
        return await read_metrics(self._http, self._platform.operator_url)

    async def _at_a_rate(self) -> dict[str, Any]:
        """Joins come at their times, however slow the last one was."""
        scale = self._scale
        before = await self._metrics()
        began = time.perf_counter()
        times: list[float] = []

        async def join_at(number: int) -> None:
            due = began + number / scale.rate
            await asyncio.sleep(due - time.perf_counter())
            await self._join(number % scale.sessions)
            times.append(time.perf_counter() - due)

        joins = int(scale.rate * scale.seconds)
        async with asyncio.TaskGroup() as tasks:
            for number in range(joins):
                tasks.create_task(join_at(number))
        seconds = time.perf_counter() - began
        milliseconds = summary([each * 1000 for each in times], digits=1)
        return {
            "join_ms": milliseconds,
            "join_p99_ms": milliseconds["p99"],
            "joins_per_s": round(joins / seconds, 1),
            "writes_per_join": await self._writes_since(before, joins),
        }

    async def _join(self, number: int) -> None:
        client = f"late-{next(self._numbers)}"
        name = _name(number)
        body = {"spec": {"clients": {client: _HERE}}}
        await self._client.patch(Session, name, NAMESPACE, body=body)

        def ready(seen: Session | None) -> bool:
            has = seen.status.clients.get(client) if seen is not None else None
            return has is not None and has.ready

        await self._sessions.until(Key(NAMESPACE, name), ready, f"{client} ready in {name}")

    async def _writes_since(self, before: OperatorMetrics, joins: int) -> dict[str, float]:
        """The client's own write, and what the operator wrote, for each join."""
        now = (await self._metrics()).writes
        wrote = {
            what: round((count - before.writes.get(what, 0)) / joins, 2)
            for what, count in sorted(now.items())
        }
        return {"client patch Session": 1.0} | {what: n for what, n in wrote.items() if n}

    async def _as_fast_as_possible(self) -> dict[str, Any]:
        """Half of the raw patches before the joins and half after: the machine may drift."""
        scale = self._scale
        raw = await self._raw_patches(scale.seconds / 2)
        before = await self._metrics()
        hits = before.total("edgewise_session_warm_hits_total")
        joins, seconds = await _flat_out(
            lambda number: self._join(number % scale.sessions), scale.seconds, most=scale.warm
        )
        after = await self._metrics()
        writes = await self._writes_since(before, joins)
        began = time.perf_counter()
        await self._until_warm()
        refill = time.perf_counter() - began
        raw += await self._raw_patches(scale.seconds / 2)
        raw_rate = raw / scale.seconds
        rate = joins / seconds
        return {
            "joins": joins,
            # What the joins have put off: the pool was full again so much later.
            "refilled_after_s": round(refill, 1),
            "warm_hits": int(after.total("edgewise_session_warm_hits_total") - hits),
            "joins_per_s": round(rate, 1),
            "raw_patches_per_s": round(raw_rate, 1),
            "writes_per_join": writes,
            "ratios": {"joins_per_raw_patch": ratio(rate, raw_rate)},
        }

    async def _raw_patches(self, seconds: float) -> int:
        """The same objects, changed in a way that means nothing to the operator."""

        async def patch(number: int) -> None:
            body = {"metadata": {"annotations": {"bench": str(number)}}}
            name = _name(number % self._scale.sessions)
            await self._client.patch(Session, name, NAMESPACE, body=body)

        count, _ = await _flat_out(patch, seconds)
        return count


_HERE = {"connected": True}


def _name(number: int) -> str:
    return f"s{number}"


def _has_ready(count: int, seen: Session | None) -> bool:
    return seen is not None and (seen.status.counts.ready or 0) >= count


def _pod() -> dict[str, Any]:
    return {"containers": [{"name": "server", "image": IMAGE}], "terminationGracePeriodSeconds": 0}


async def _in_parallel(calls: list[Callable[[], Awaitable[Any]]], most: int) -> None:
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(most):
            tasks.create_task(work())


async def _flat_out(
    do: Callable[[int], Awaitable[None]], seconds: float, *, most: int = 0
) -> tuple[int, float]:
    """Do it over and over, several at once, for a while, but at the most so often.

    Answers how often, and how long it took.
    """
    began = time.perf_counter()
    numbers = itertools.count()
    done = 0

    async def work() -> None:
        nonlocal done
        for number in numbers:
            if time.perf_counter() - began > seconds or (most and number >= most):
                return
            await do(number)
            done += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(FLAT_OUT):
            tasks.create_task(work())
    return done, time.perf_counter() - began
