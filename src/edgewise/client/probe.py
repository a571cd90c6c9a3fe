"""How far away each location is, as seen from here.

One lost or late packet must not decide where somebody is placed, so every location gets
several probes and its median counts. All locations are probed at the same time, and the
whole takes no longer than its deadline. UDP comes first; a location that lets no UDP
through within a part of the deadline is measured over HTTP as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import statistics
import time
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import aiohttp
import msgspec

from edgewise.client.sessions.views import Location

QUESTION = b"EWP1?"
ANSWER = b"EWP1!"
SIZE = 32

PROBES = 5
DEADLINE_SECONDS = 1.0
BETWEEN_PROBES_SECONDS = 0.02
# This part of the deadline belongs to UDP alone.
UDP_FIRST = 0.4
# How many medians the last answers may take.
PATIENCE = 4.0


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a location can be probed: `udp` is host:port, `http` a URL."""

    name: str
    udp: str = ""
    http: str = ""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about one location; `median_ms` is None if it never answered."""

    name: str
    median_ms: float | None = None
    sent: int = 0
    received: int = 0
    how: str = ""


def targets_of(locations: Iterable[Location]) -> list[Target]:
    """The locations that take clients and say where they can be probed."""
    return [
        Target(name=each.name, udp=each.ping.udp, http=each.ping.http)
        for each in locations
        if each.state == "ready" and (each.ping.udp or each.ping.http)
    ]


def medians(measurements: Mapping[str, Measurement]) -> dict[str, float]:
    """As a join wants them: milliseconds by location, without those that never answered."""
    return {
        name: found.median_ms for name, found in measurements.items() if found.median_ms is not None
    }


async def measure(
    targets: Iterable[Target],
    *,
    probes: int = PROBES,
    deadline: float = DEADLINE_SECONDS,
) -> dict[str, Measurement]:
    """Probe all targets at once; every one of them is in the answer."""
    chosen = {target.name: target for target in targets}
    found = await asyncio.gather(
        *(_measure_one(target, probes, deadline) for target in chosen.values())
    )
    return {measurement.name: measurement for measurement in found}


async def _measure_one(target: Target, probes: int, deadline: float) -> Measurement:
    over_udp, over_http = _Samples("udp"), _Samples("http")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(deadline), asyncio.TaskGroup() as group:
            udp = None
            if target.udp:
                udp = group.create_task(_probe_udp(target.udp, over_udp, probes))
            if target.http:
                if udp is not None:
                    await asyncio.wait({udp}, timeout=deadline * UDP_FIRST)
                if not over_udp.times:
                    await _probe_http(target.http, over_http, probes)
                    if udp is not None and over_http.times:
                        udp.cancel()
    best = over_udp if over_udp.times else over_http
    return Measurement(
        name=target.name,
        median_ms=round(statistics.median(best.times) * 1000, 3) if best.times else None,
        sent=best.sent,
        received=len(best.times),
        how=best.how if best.times else "",
    )


class _Samples:
    """Answers as they come in, so that a deadline loses none of them."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.sent = 0
        self.times: list[float] = []


class _Asker(asyncio.DatagramProtocol):
    """Sends questions that cannot be guessed, and times their answers."""

    def __init__(self, samples: _Samples, probes: int) -> None:
        self.samples = samples
        self.probes = probes
        self.enough = asyncio.Event()  # more than half
        self.done = asyncio.Event()
        self._waiting: dict[bytes, float] = {}

    def ask(self, transport: asyncio.DatagramTransport) -> None:
        nonce = secrets.token_bytes(SIZE - len(QUESTION))
        self._waiting[nonce] = time.perf_counter()
        self.samples.sent += 1
        transport.sendto(QUESTION + nonce)

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002
        now = time.perf_counter()
        if not data.startswith(ANSWER):
            return
        asked = self._waiting.pop(data[len(ANSWER) :], None)
        if asked is None:
            return  # forged, or a repetition
        self.samples.times.append(now - asked)
        if len(self.samples.times) > self.probes // 2:
            self.enough.set()
        if len(self.samples.times) >= self.probes:
            self.done.set()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there (ICMP): the probes go unanswered, which says it all."""


async def _probe_udp(address: str, samples: _Samples, probes: int) -> None:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdigit():
        return
    loop = asyncio.get_running_loop()
    try:
        transport, asker = await loop.create_datagram_endpoint(
            lambda: _Asker(samples, probes), remote_addr=(host, int(port))
        )
    except OSError:
        return  # the name does not resolve, or there is no route
    try:
        for _ in range(probes):
            asker.ask(transport)
            await asyncio.sleep(BETWEEN_PROBES_SECONDS)
        await asker.enough.wait()
        # The median is settled; what is still out may be lost, and nobody waits for that.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE * statistics.median(samples.times)):
                await asker.done.wait()
    finally:
        transport.close()


async def _probe_http(url: str, samples: _Samples, probes: int) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        return
    with contextlib.suppress(aiohttp.ClientError, OSError):
        async with aiohttp.ClientSession() as session:
            for number in range(probes + 1):
                start = time.perf_counter()
                async with session.get(url, allow_redirects=False) as answer:
                    await answer.read()
                # The first request pays for the connection and for TLS; it is no measurement.
                if number == 0:
                    continue
                samples.sent += 1
                if answer.status < 400:
                    samples.times.append(time.perf_counter() - start)
