"""Figures of searches. Pure: moments and answers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import msgspec

from edgewise.bench.placement.timeline import Moment
from edgewise.errors import ReadableError


class NoSearch(ReadableError):
    """The moments show no search, or none that ended."""


class Answers(msgspec.Struct, frozen=True):
    """What a prober tells: when, from which pod, after how many milliseconds; and what failed."""

    requests: int
    answers: list[tuple[float, str, float]]
    failures: list[tuple[float, str]]


class SearchRun(msgspec.Struct, frozen=True, kw_only=True):
    """One search, measured."""

    sentinels: int
    seconds: float
    best_at: float | None
    node: str
    rounds: int
    # T_S, T_D and T_COM.
    schedule: float
    deschedule: list[float]
    com: float
    least_ready: int
    peak_pods: int
    # Without those that are ending, as the paper counts them.
    live_pods: int
    sentinel_seconds: float
    moves: int
    bare_ready: float
    default_rtt: list[float]
    # As in the paper's Fig. 12: seconds, round trip of the node, and whether it held a replica.
    path: list[tuple[float, float, bool]] = []


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same in all runs."""

    nodes: list[str]
    round_trips: list[float]
    replicas: int = 1
    observation: float = 1.0

    @property
    def best(self) -> str:
        return self.nodes[self.round_trips.index(min(self.round_trips))]

    def rtt(self, node: str) -> float:
        return self.round_trips[self.nodes.index(node)]

    def rounds(self, sentinels: int) -> int:
        return math.ceil((len(self.nodes) - self.replicas) / sentinels)


def extent(moments: Sequence[Moment], replicas: int) -> tuple[int, int]:
    """The first moment with a sentinel, and the first after the search with no loser in service."""
    begun = next((n for n, m in enumerate(moments) if any(p.sentinel for p in m.pods)), None)
    if begun is None:
        raise NoSearch("no sentinel was created")
    for number in range(begun, len(moments)):
        moment = moments[number]
        staying = {pod.name for pod in moment.pods if not pod.sentinel and not pod.ending}
        if moment.ended and moment.ready <= staying and len(moment.ready) == replicas:
            return begun, number
    raise NoSearch(f"the search did not end: {moments[-1].phase or 'no phase'}")


def search_run(
    moments: Sequence[Moment],
    setting: Setting,
    sentinels: int,
    *,
    bare_ready: float,
    default_rtt: list[float],
) -> SearchRun:
    first, last = extent(moments, setting.replicas)
    began, ended = moments[first], moments[last]
    during = moments[first : last + 1]
    best = next((m.at for m in moments[: last + 1] if m.on(setting.best)), None)
    pods = {pod.name: pod for moment in moments for pod in moment.pods}
    served = sorted(ended.ready)
    return SearchRun(
        sentinels=sentinels,
        seconds=ended.at - began.at,
        best_at=max(0.0, best - began.at) if best is not None else None,
        node=pods[served[0]].node,
        rounds=setting.rounds(sentinels),
        schedule=ended.schedule_seconds,
        deschedule=descheduling(moments),
        com=ended.com_seconds,
        least_ready=min(len(moment.ready) for moment in during),
        peak_pods=max(len(moment.pods) for moment in during),
        live_pods=max(sum(not pod.ending for pod in moment.pods) for moment in during),
        sentinel_seconds=sentinel_seconds(during),
        moves=ended.moves - moments[0].moves,
        bare_ready=bare_ready,
        default_rtt=default_rtt,
        path=path(moments[: last + 1], setting, began.at),
    )


def path(
    moments: Sequence[Moment], setting: Setting, began: float
) -> list[tuple[float, float, bool]]:
    """When each pod began to serve, as a sentinel and as a replica."""
    found: dict[tuple[str, bool], tuple[float, float, bool]] = {}
    for moment in moments:
        for pod in moment.pods:
            if pod.name in moment.ready and pod.node and not pod.ending:
                holds = not pod.sentinel
                at = _round(max(0.0, moment.at - began))
                found.setdefault((pod.name, holds), (at, setting.rtt(pod.node), holds))
    return sorted(found.values())


def descheduling(moments: Sequence[Moment]) -> list[float]:
    """T_D: from the order to go until the pod is gone."""
    told: dict[str, float] = {}
    found = []
    for moment in moments:
        for pod in moment.pods:
            if pod.ending:
                told.setdefault(pod.name, moment.at)
        here = {pod.name for pod in moment.pods}
        for name in [name for name in told if name not in here]:
            found.append(moment.at - told.pop(name))
    return found


def sentinel_seconds(moments: Sequence[Moment]) -> float:
    """Pods beside the replicas, ending ones too, times how long they were there."""
    return sum(
        (later.at - now.at) * sum(pod.sentinel for pod in now.pods)
        for now, later in pairwise(moments)
    )


def model_seconds(runs: Sequence[SearchRun], setting: Setting, sentinels: int) -> float:
    """T_C = ⌈(N−R)/S⌉·(T_O+T_S+T_COM), with what these runs took."""
    return setting.rounds(sentinels) * (setting.observation + mean_schedule(runs) + mean_com(runs))


def seed_model_seconds(runs: Sequence[SearchRun], setting: Setting, sentinels: int) -> float:
    """The paper's: T_C = N/S·(T_O+T_S+T_D+T_COM)."""
    gone = [seconds for run in runs for seconds in run.deschedule]
    step = setting.observation + mean_schedule(runs) + _mean(gone) + mean_com(runs)
    return len(setting.nodes) / sentinels * step


def mean_schedule(runs: Sequence[SearchRun]) -> float:
    return _mean([run.schedule for run in runs])


def mean_com(runs: Sequence[SearchRun]) -> float:
    return _mean([run.com for run in runs])


def overload_percent(replicas: int, pods: int) -> float:
    """O = (R+S)/R·100, as the paper has it; of pods that were counted, without ending ones."""
    return pods / replicas * 100


def of_sentinels(runs: Sequence[SearchRun], setting: Setting) -> dict[str, Any]:
    """The figures of all runs with the same number of sentinels."""
    number = runs[0].sentinels
    name = f"s{number}"
    took = [run.seconds for run in runs]
    return {
        f"{name}_mean_s": _round(fmean(took)),
        f"{name}_min_s": _round(min(took)),
        f"{name}_max_s": _round(max(took)),
        f"{name}_best_at_s": _round(_mean([r.best_at for r in runs if r.best_at is not None])),
        f"{name}_model_s": _round(model_seconds(runs, setting, number)),
        f"{name}_seed_model_s": _round(seed_model_seconds(runs, setting, number)),
        f"{name}_rounds": setting.rounds(number),
        f"{name}_step_s": _round(_mean([run.seconds / run.rounds for run in runs])),
        f"{name}_bare_ready_s": _round(_mean([run.bare_ready for run in runs])),
        f"{name}_overload_pct": overload_percent(
            setting.replicas, max(run.live_pods for run in runs)
        ),
        f"{name}_peak_pods": max(run.peak_pods for run in runs),
        f"{name}_moves": _round(_mean([float(run.moves) for run in runs])),
    }


def of_searches(
    runs: Sequence[SearchRun],
    setting: Setting,
    new: Sequence[Answers],
    kept: Sequence[Answers],
) -> dict[str, Any]:
    """All figures of the searches; per number of sentinels, and over all."""
    figures: dict[str, Any] = {}
    for number in sorted({run.sentinels for run in runs}):
        figures |= of_sentinels([run for run in runs if run.sentinels == number], setting)
    return figures | {
        "best_at_s": _round(_mean([r.best_at for r in runs if r.best_at is not None])),
        "schedule_s": _round(mean_schedule(runs)),
        "deschedule_s": _round(_mean([each for run in runs for each in run.deschedule])),
        "com_s": _round(mean_com(runs)),
        "seed_model_s": {
            key.removesuffix("_seed_model_s"): value
            for key, value in figures.items()
            if key.endswith("_seed_model_s")
        },
        "step_s": _round(_mean([run.seconds / run.rounds for run in runs])),
        "bare_ready_s": _round(_mean([run.bare_ready for run in runs])),
        "found_best": sum(run.node == setting.best for run in runs),
        "runs": len(runs),
        "rtt_ms": _round(_mean([setting.rtt(run.node) for run in runs])),
        "default_rtt_ms": _round(_mean([rtt for run in runs for rtt in run.default_rtt])),
        "requests": sum(each.requests for each in (*new, *kept)),
        "failed_requests": sum(len(each.failures) for each in new),
        "kept_failed": sum(len(each.failures) for each in kept),
        "least_ready": min(run.least_ready for run in runs),
        "peak_pods": max(run.peak_pods for run in runs),
        "sentinel_seconds": _round(_mean([run.sentinel_seconds for run in runs])),
        "moves": _round(_mean([float(run.moves) for run in runs])),
    }


BARS = {1: 28.0, 2: 17.0, 3: 12.0, 4: 12.0}
# By T_O.
_AT_MOST: dict[str, Callable[[float], float]] = {
    "calm_moves": lambda _: 0.0,
    "probe_s": lambda _: 5.0,
    "probe_moves": lambda _: 1.0,
    "probe_worse_requests": lambda _: 0.0,
    "moved_s": lambda observation: 2 * observation + 5.0,
}


def judged(figures: dict[str, Any], observation: float = 1.0) -> dict[str, bool]:
    """Which of the bars for a quiet machine hold; what was not measured is not judged."""
    found: dict[str, bool] = {}
    for number, bar in BARS.items():
        mean = figures.get(f"s{number}_mean_s")
        if mean is None:
            continue
        model, bare = figures[f"s{number}_model_s"], figures[f"s{number}_bare_ready_s"]
        found[f"s{number}_mean_s"] = mean <= bar
        found[f"s{number}_model_s"] = abs(mean - model) <= 0.2 * model
        found[f"s{number}_step_s"] = figures[f"s{number}_step_s"] <= observation + bare + 1.0
        found[f"s{number}_overload_pct"] = figures[f"s{number}_overload_pct"] == (1 + number) * 100
    if "runs" in figures:
        found["found_best"] = figures["found_best"] == figures["runs"]
        found["failed_requests"] = figures["failed_requests"] == 0
        found["kept_failed"] = figures["kept_failed"] == 0
        found["least_ready"] = figures["least_ready"] >= 1
    if figures.get("sla_full_s") is not None:
        found["sla_s"] = figures["sla_s"] < figures["sla_full_s"]
        found["sla_moves"] = figures["sla_moves"] < figures["sla_full_moves"]
    for key, most in _AT_MOST.items():
        if key in figures:  # None: it did not happen
            found[key] = figures[key] is not None and figures[key] <= most(observation)
    return found


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _round(value: float) -> float:
    return round(value, 3)
