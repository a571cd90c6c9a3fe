"""The runs of `edgewise bench placement`, each with a user in the place who never stops asking."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from edgewise.bench.machine_load import MachineLoad
from edgewise.bench.placement.figures import (
    Answers,
    SearchRun,
    Setting,
    of_searches,
    search_run,
)
from edgewise.bench.placement.ground import Ground
from edgewise.bench.placement.maps import noise
from edgewise.bench.placement.objects import NAME, NAMESPACE, SERVICE, SERVICE_PORT
from edgewise.bench.placement.probing import Prober, probing
from edgewise.bench.placement.timeline import ENDED, Moment, Timeline
from edgewise.local.network.delay import Delay

Tell = Callable[[str], None]
# Reports of what the place measures, for as long as the block runs.
Reporting = Callable[[], AbstractAsyncContextManager[None]]

# Of the search that is not to begin again while one is measured.
LONG_TRIGGER = "1h"
NOISE = 0.2
CALM_TRIGGER_SECONDS = 40
CALM_SEARCHES = 10
SLA_MS = 60.0


def failures_of(new: Answers, kept: Answers) -> list[str]:
    """What failed, by which user, and how long after their first request."""
    return [
        f"{who} at {at - min(moment for moment, _, _ in each.answers):.2f} s: {why}"
        for who, each in (("new", new), ("kept", kept))
        for at, why in each.failures
        if each.answers
    ]


class PlacementBench:
    def __init__(
        self,
        ground: Ground,
        setting: Setting,
        delays: Sequence[Delay],
        reporting: Reporting,
        tell: Tell,
    ) -> None:
        self._ground = ground
        self._setting = setting
        self._delays = list(delays)
        self._reporting = reporting
        self._tell = tell
        self._timeline = Timeline(ground.pods, ground.slices, ground.placements)
        self._number = 0

    async def searches(self, sentinels: Sequence[int], repeat: int) -> dict[str, Any]:
        runs: list[SearchRun] = []
        new: list[Answers] = []
        kept: list[Answers] = []
        loads: list[dict[str, float]] = []
        for number in range(repeat):
            for count in sentinels:
                before = MachineLoad.now()
                run, asked, held = await self._search(count)
                loads.append(before.until(MachineLoad.now()))
                runs.append(run)
                new.append(asked)
                kept.append(held)
                failed = failures_of(asked, held)
                self._tell(
                    f"run {number + 1} of {repeat}, {count} sentinel(s): {run.seconds:.1f} s, "
                    f"on {run.node}, {len(failed)} failed {'; '.join(failed[:5])}".rstrip()
                )
        each = [
            msgspec.to_builtins(run) | {"load": load, "failures": failures_of(asked, held)}
            for run, load, asked, held in zip(runs, loads, new, kept, strict=True)
        ]
        return of_searches(runs, self._setting, new, kept) | {"searches": each}

    async def _search(self, sentinels: int) -> tuple[SearchRun, Answers, Answers]:
        self._number += 1
        await self._ground.prepare()
        bare, where = await self._ground.bare_pods(sentinels, self._number)
        async with self._running(sentinels=sentinels, trigger=LONG_TRIGGER) as probers:
            await self._until_ended(self._patience(sentinels))
            # The last loser leaves the Service a moment after the search has ended.
            await self._until_settled()
            moments = list(self._timeline.moments)
            new, kept = await asyncio.gather(*(prober.stop() for prober in probers))
            words = self._words()
            run = search_run(
                await self._until_losers_went(moments),
                self._setting,
                sentinels,
                bare_ready=bare,
                default_rtt=[self._setting.rtt(node) for node in where],
            )
        if run.node != self._setting.best:
            self._tell(f"not the nearest node: {words}")
        return run, new, kept

    async def probe(self, repeat: int) -> dict[str, Any]:
        """One step to the best node, and no request of a user on one that is worse."""
        took: list[float] = []
        moves: list[int] = []
        runs: list[dict[str, Any]] = []
        worse = failed = 0
        for _ in range(repeat):
            first = random.choice([n for n in self._ground.nodes if n != self._setting.best])
            async with self._running(
                node=first, mode="Probe", sentinels=1, trigger=LONG_TRIGGER
            ) as probers:
                began = time.time()  # a user is there, and reports
                await self._until_ended(60.0)
                await self._until_settled()
                answers = await asyncio.gather(*(prober.stop() for prober in probers))
                moments = list(self._timeline.moments)
                words = self._words()
            reached = next((m.at for m in moments if m.on(self._setting.best)), None)
            seconds = None if reached is None else round(max(0.0, reached - began), 3)
            if seconds is not None:
                took.append(seconds)
            moves.append(moments[-1].moves - moments[0].moves)
            runs.append({"rtt_ms": self._setting.rtt(first), "s": seconds, "moves": moves[-1]})
            worse += self._requests_on_worse(moments, answers, first)
            failed += sum(len(each.failures) for each in answers)
            self._tell(f"probe: {seconds} s, {moves[-1]} move(s)")
            if moves[-1] != 1:
                self._tell(f"not one move: {words}")
        return {
            "probes": runs,
            "probe_s": round(max(took, default=0.0), 3) if len(took) == repeat else None,
            "probe_moves": max(moves),
            "probe_worse_requests": worse,
            "probe_failed_requests": failed,
        }

    async def user_moves(self, repeat: int) -> dict[str, Any]:
        """The place comes to lie elsewhere, and the service follows: the slowest time of all."""
        took = []
        for _ in range(repeat):
            seconds = await self._user_moves()
            if seconds is None:
                return {"moved_s": None}
            took.append(seconds)
            self._tell(f"the user moved: {seconds:.1f} s")
        return {"moved_s": round(max(took), 3), "moved_mean_s": round(sum(took) / repeat, 3)}

    async def _user_moves(self) -> float | None:
        """The nearest node becomes the farthest. None: nothing followed."""
        nodes = self._ground.nodes
        turned = dict(zip(nodes, reversed(self._delays), strict=True))
        threshold = {"p95Ms": min(100.0, self._setting.round_trips[-1] / 2)}
        async with self._running(
            node=self._setting.best, mode="Probe", trigger=LONG_TRIGGER, threshold=threshold
        ):
            await self._until_ended(60.0)
            # Only what users measured for a while can be above the threshold.
            await asyncio.sleep(2.0)
            moved = time.time()
            self._ground.move_place(turned)
            try:
                while not self._timeline.moments[-1].on(nodes[-1]):
                    if time.time() > moved + 60.0:
                        self._tell(f"the user moved, and nothing followed: {self._words()}")
                        return None
                    await asyncio.sleep(0.02)
                return self._timeline.moments[-1].at - moved
            finally:
                self._ground.move_place(dict(zip(nodes, self._delays, strict=True)))

    async def sla(self, repeat: int, full: dict[str, Any]) -> dict[str, Any]:
        """A search that ends as soon as it is good enough, beside the full one."""
        took: list[float] = []
        moves: list[float] = []
        for _ in range(repeat):
            async with self._running(sentinels=1, trigger=LONG_TRIGGER, sla={"p95Ms": SLA_MS}):
                await self._until_ended(self._patience(1))
                await self._until_settled()
                moments = list(self._timeline.moments)
            began = next((m.at for m in moments if any(p.sentinel for p in m.pods)), None)
            ended = next(m.at for m in moments if m.ended)
            took.append(max(0.0, ended - began) if began is not None else 0.0)
            moves.append(float(moments[-1].moves - moments[0].moves))
            self._tell(f"SLA: {took[-1]:.1f} s, {moves[-1]:.0f} move(s)")
        return {
            "sla_s": round(sum(took) / repeat, 3),
            "sla_moves": round(sum(moves) / repeat, 3),
            "sla_full_s": full.get("s1_mean_s"),
            "sla_full_moves": full.get("s1_moves"),
        }

    async def calm(self, searches: int = CALM_SEARCHES) -> dict[str, Any]:
        """Under noise, one search after the other: none moves what is best already."""
        noisy = noise(self._delays, NOISE)
        self._ground.move_place(dict(zip(self._ground.nodes, noisy, strict=True)))
        sentinels = max(1, len(self._ground.nodes) - 1)
        trigger = f"{CALM_TRIGGER_SECONDS}s"
        try:
            async with self._running(
                node=self._setting.best, sentinels=min(4, sentinels), trigger=trigger
            ):
                first = await self._until_ended(self._patience(min(4, sentinels)))
                for number in range(1, searches + 1):
                    await self._ground.until_placement(
                        lambda seen, after=first.search + number: (
                            seen.status.search.number >= after and seen.status.phase in ENDED
                        ),
                        f"search {number} under noise",
                        CALM_TRIGGER_SECONDS + self._patience(1),
                    )
                    self._tell(f"under noise: search {number} of {searches}")
                moves = self._timeline.moments[-1].moves - first.moves
        finally:
            self._ground.move_place(dict(zip(self._ground.nodes, self._delays, strict=True)))
        return {"calm_searches": searches, "calm_moves": moves}

    @asynccontextmanager
    async def _running(self, node: str = "", **spec: Any) -> AsyncIterator[tuple[Prober, Prober]]:
        """One run: target and placement, probers and reports; all gone afterwards."""
        await self._ground.prepare()
        try:
            self._timeline.begin()
            await self._ground.begin(node or self._random_node(), **spec)
            async with (
                probing(self._ground.cluster, self._ground.place, SERVICE, SERVICE_PORT) as probers,
                self._reporting(),
            ):
                yield probers
        finally:
            await self._ground.clean_up()

    def _words(self) -> str:
        """What the placement says of itself, for a run that did not end well."""
        for seen in self._ground.placements.cache.all(NAMESPACE):
            said = [f"{each.type}={each.status}: {each.message}" for each in seen.status.conditions]
            visited = ", ".join(f"{each.node} {each.why}" for each in seen.status.visited)
            ranking = ", ".join(f"{each.node} {each.rtt_ms:g} ms" for each in seen.status.ranking)
            words = f"{seen.status.phase} {seen.status.message}"
            return "; ".join([words, f"visited {visited}", f"ranking {ranking}", *said])
        return "there is no placement"

    def _random_node(self) -> str:
        return random.choice(self._ground.nodes)

    def _patience(self, sentinels: int) -> float:
        return 60.0 + 12.0 * self._setting.rounds(sentinels)

    async def _until_ended(self, within: float) -> Moment:
        await self._ground.until_placement(
            lambda seen: seen.status.phase in ENDED, f"{NAMESPACE}/{NAME}: the end", within
        )
        return self._timeline.moments[-1]

    async def _until_settled(self) -> None:
        """As many in service as replicas, and none that is about to go."""
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            now = self._timeline.moments[-1]
            staying = {pod.name for pod in now.pods if not pod.ending and not pod.sentinel}
            if now.ready <= staying and len(now.ready) == self._setting.replicas:
                return
            await asyncio.sleep(0.02)

    async def _until_losers_went(self, moments: list[Moment]) -> list[Moment]:
        """The same moments, and those until the last pod is gone: how long that takes counts."""
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            if not any(pod.ending for pod in self._timeline.moments[-1].pods):
                break
            await asyncio.sleep(0.05)
        return [*moments, *self._timeline.moments[len(moments) :]]

    def _requests_on_worse(
        self, moments: Sequence[Moment], answers: Sequence[Answers], first: str
    ) -> int:
        where = {pod.name: pod.node for moment in moments for pod in moment.pods}
        start = self._setting.rtt(first)
        return sum(
            pod in where and self._setting.rtt(where[pod]) > start
            for each in answers
            for _, pod, _ in each.answers
        )
