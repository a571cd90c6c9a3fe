"""How long a WebRTC client waits for its first box, beside the least that its pod takes.

`bare` is the pod alone: created, ready, and a first HTTP answer at the pod's own address.
`connect` is what a client does: it joins by the SDK, and a pod is started for it; it sends its
offer to the address that it was given, through the gateway; it connects through TURN with the
credentials from the same answer; and a box comes back that is where the face is. Both run the
same image with the same settings, in turn, so that whatever the machine does hits both alike.

A kubelet looks at its containers once a second, and probes them once a second. Measurements that
follow each other at fixed distances fall into step with that, one kind always early and the
other always late, by up to a second. So each begins after a pause of a random length.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

import aiohttp
import msgspec

from edgewise.bench.sessions.webrtc_films import Film, FilmFailed, Filming, Films, films
from edgewise.bench.sessions.webrtc_sample import (
    POD_TEMPLATE,
    SIGNAL_PORT,
    SIGNAL_PORT_NAME,
    cold_template,
    pod_spec,
    sample_template,
)
from edgewise.bench.sessions.webrtc_stage import NAMESPACE, Stage
from edgewise.bench.summary import summary
from edgewise.client import Edgewise, EdgewiseError, Seat
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.runtime.awaiting import WaitedInVain, Waiting, watching

Tell = Callable[[str], None]

SESSION = "webrtc"
ONE = Filming(seconds=2.0, rate=10)
# Each picture costs 30 ms of CPU or so, on both sides together: few enough for two cores.
MANY = Filming(seconds=3.0, rate=2, deadline=300.0)
READY_SECONDS = 300.0
RETRY_SECONDS = 0.002
QUIET_SECONDS = 0.5
KUBELET_SECONDS = 1.0


class Connected(msgspec.Struct, frozen=True):
    """Seconds since a client began to join."""

    seated: float
    channel: float
    boxes: float
    frame_to_box_ms: list[float]


def template() -> dict[str, Any]:
    return cold_template(sample_template(), NAMESPACE)


class WebrtcBench:
    def __init__(self, stage: Stage, tell: Tell) -> None:
        self._stage = stage
        self._tell = tell
        self._bare: list[float] = []
        self._connect: list[Connected] = []

    async def run(self, rounds: int, at_once: int) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=10),
            ) as self._http,
            watching(self._stage.client, Pod) as waits,
            Edgewise(self._stage.url, self._stage.token) as edgewise,
        ):
            self._pods: Waiting[Pod] = waits[0]
            await edgewise.create_session(template()["metadata"]["name"], SESSION)
            try:
                await self._in_turn(rounds)
                many = await self._all_at_once(at_once) if at_once else []
            finally:
                await edgewise.delete_session(SESSION)
        return figures(self._bare, self._connect, many)

    async def _in_turn(self, rounds: int) -> None:
        async with films(ONE) as running:
            for number in range(rounds + 1):
                await self._until_quiet()
                bare = await self._bare_pod(f"bare-{number}")
                await self._until_quiet()
                connected = await self._connect_one(running, f"c{number}")
                # The first round also warms up the machine.
                if number:
                    self._bare.append(bare)
                    self._connect.append(connected)
                self._tell(
                    f"round {number} of {rounds}: bare {bare:.2f} s, seated {connected.seated:.2f} "
                    f"s, channel {connected.channel:.2f} s, first box {connected.boxes:.2f} s"
                )

    async def _bare_pod(self, name: str) -> float:
        began = time.perf_counter()
        await self._stage.client.create(Pod.named(name, NAMESPACE, spec=pod_spec(template())))
        key = Key(NAMESPACE, name)
        seen = await self._pods.until(key, lambda p: p is not None and p.ready, f"{key} ready")
        assert seen is not None  # noqa: S101 - said by the condition
        await self._first_answer(f"http://{seen.status.pod_ip}:{SIGNAL_PORT}/healthz")
        seconds = time.perf_counter() - began
        await self._stage.client.delete(Pod, name, NAMESPACE, grace_seconds=0)
        return seconds

    async def _first_answer(self, url: str, *, within: float = 60.0) -> None:
        deadline = time.perf_counter() + within
        while True:
            try:
                async with self._http.get(url) as answer:
                    if answer.status == 200:
                        return
            except (OSError, aiohttp.ClientError):
                pass
            if time.perf_counter() > deadline:
                raise WaitedInVain(f"{url} did not answer within {within:.0f} s")
            await asyncio.sleep(RETRY_SECONDS)

    async def _connect_one(self, running: Films, client: str) -> Connected:
        began = time.perf_counter()
        wish = {"ready_within": READY_SECONDS}
        edgewise = Edgewise(self._stage.url, self._stage.token)
        async with edgewise.join(SESSION, client=client, **wish) as seat:
            seated = time.perf_counter() - began
            film = running.begin(target(seat))
            await film.end()
        return _times(film, began, seated)

    async def _until_quiet(self) -> None:
        """Pods are gone, and so is what the node does about that; then a random moment."""
        for pod in list(self._pods.cache):
            if pod.metadata.namespace == NAMESPACE:
                await self._pods.until(pod.key, lambda seen: seen is None, f"{pod.key} gone")
        await asyncio.sleep(QUIET_SECONDS + random.uniform(0, KUBELET_SECONDS))

    async def _all_at_once(self, clients: int) -> list[Connected | str]:
        self._tell(f"{clients} clients at once, each with a pod that has to be started")

        async def one(running: Films, client: str) -> Connected | str:
            try:
                connected = await self._connect_one(running, client)
            except (FilmFailed, EdgewiseError) as error:
                self._tell(f"{client}: {error}")
                return f"{client}: {error}"
            self._tell(f"{client}: first box after {connected.boxes:.1f} s")
            return connected

        await self._until_quiet()
        async with films(MANY) as running:
            return await asyncio.gather(*(one(running, f"m{each}") for each in range(clients)))


def target(seat: Seat) -> dict[str, Any]:
    """Where the sample's client goes: all of it from the answer to the join."""
    if not seat.ice_servers:
        raise FilmFailed(f"{seat.location} gave {seat.client} no TURN server")
    return {
        "url": seat.endpoint(SIGNAL_PORT_NAME),
        "client": seat.client,
        "iceServers": msgspec.to_builtins(seat.ice_servers),
        "token": seat.tokens.get(POD_TEMPLATE, ""),
    }


def _times(film: Film, began: float, seated: float) -> Connected:
    if film.connected_at is None or film.boxes_at is None:
        raise FilmFailed("the sample's client ended well, but did not tell when boxes came")
    return Connected(seated, film.connected_at - began, film.boxes_at - began, film.frame_to_box_ms)


def figures(
    bare: list[float], connect: list[Connected], many: list[Connected | str]
) -> dict[str, Any]:
    bare_s, connect_s = summary(bare), summary([each.boxes for each in connect])
    came = [each for each in many if isinstance(each, Connected)]
    return {
        "bare_s": bare_s,
        "connect_s": connect_s,
        "beyond_bare_p50_s": round(connect_s["p50"] - bare_s["p50"], 4),
        # Of times that are spread over a second, a mean says more than the value in the middle.
        "beyond_bare_mean_s": round(fmean(each.boxes for each in connect) - fmean(bare), 4),
        "steps_s": {
            "seated": summary([each.seated for each in connect]),
            "channel": summary([each.channel for each in connect]),
            "boxes": connect_s,
        },
        "frame_to_box_ms": _frame_to_box(connect),
        "at_once": {
            "clients": len(many),
            "connected": len(came),
            "seconds": summary([each.boxes for each in came]),
            "frame_to_box_ms": _frame_to_box(came),
            "failed": [each for each in many if isinstance(each, str)],
        },
    }


def _frame_to_box(of: list[Connected]) -> dict[str, float]:
    return summary([each for connected in of for each in connected.frame_to_box_ms], digits=1)
