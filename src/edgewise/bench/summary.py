"""Many measurements as a few figures."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest measured value that at least `share` of all values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values: Sequence[float], *, digits: int = 4) -> dict[str, float]:
    """n, p50, p95, p99 and max; an empty series has only its n."""
    if not values:
        return {"n": 0}
    ordered = sorted(values)
    figures = {
        "p50": percentile(ordered, 0.5),
        "p95": percentile(ordered, 0.95),
        "p99": percentile(ordered, 0.99),
        "max": ordered[-1],
    }
    return {"n": len(ordered)} | {name: round(value, digits) for name, value in figures.items()}


def ratio(value: float | None, floor: float | None) -> float | None:
    """How many times the floor; nothing where either was not measured."""
    if value is None or not floor:
        return None
    return round(value / floor, 3)
