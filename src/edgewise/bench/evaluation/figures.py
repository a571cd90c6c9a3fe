"""The figures of one case, from what it wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.summary import percentile

SHARES = {"p5": 0.05, "p50": 0.5, "p80": 0.8, "p95": 0.95, "p99": 0.99}


def figures_of(records: Sequence[Record]) -> dict[str, Any]:
    use = [each for each in records if each.kind is Kind.USE]
    done = [each for each in records if each.kind is Kind.DONE]
    served = sum(each.kind in (Kind.CONNECT, Kind.RECOVER) for each in records)
    writes = done[-1].api_writes if done else None
    return {
        "connect_s": latency(records, Kind.CONNECT),
        "recover_s": latency(records, Kind.RECOVER),
        "reconnect_s": latency(records, Kind.RECONNECT),
        "left_waiting": sum(each.kind is Kind.LEFT_WAITING for each in records),
        "tries": sum(each.tries for each in records if each.kind in (Kind.CONNECT, Kind.RECOVER)),
        "late_ms": _spread([each.seconds * 1000 for each in _of(records, Kind.EVENT)], 1),
        "memory_mb": _mean_max([each.pods_mb for each in use], 1),
        "cpu_percent": _mean_max([each.pods_cpu * 100 for each in use], 2),
        # Of everybody in the cluster, for each time that a client was given a pod.
        "api_writes_per_connection": round(writes / served, 1) if writes and served else None,
        "machine": done[-1].machine if done else {},
        "command": done[-1].command if done else "",
        "parts": {
            name: {
                "memory_mb": _mean_max(
                    [each.parts[name][0] for each in use if name in each.parts], 1
                ),
                "cpu_percent": _mean_max(
                    [each.parts[name][1] * 100 for each in use if name in each.parts], 2
                ),
            }
            for name in dict.fromkeys(name for each in use for name in each.parts)
        },
    }


def latency(records: Iterable[Record], kind: Kind) -> dict[str, float]:
    """Who was never let in counts as failed, and is in no percentile."""
    found = _of(records, kind)
    figures = _spread([each.seconds for each in found if not each.failed], 4)
    return {"n": len(found), "failed": sum(bool(each.failed) for each in found)} | figures


def _of(records: Iterable[Record], kind: Kind) -> list[Record]:
    return [each for each in records if each.kind is kind]


def _spread(values: Iterable[float], digits: int) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    found = {name: percentile(ordered, share) for name, share in SHARES.items()}
    return {name: round(value, digits) for name, value in (found | {"max": ordered[-1]}).items()}


def _mean_max(values: Sequence[float], digits: int) -> dict[str, float]:
    if not values:
        return {}
    return {"mean": round(sum(values) / len(values), digits), "max": round(max(values), digits)}
