"""How long a search takes, by the model; what it costs. Pure.

The paper has T_C = N/S·(T_O+T_S+T_D+T_COM). Here the first round measures R+S nodes, and pods
end while the next round runs: T_C = ⌈(N−R)/S⌉·(T_O+T_S+T_COM).
"""

from __future__ import annotations

import math

# Until it was measured.
SCHEDULE_SECONDS = 2.0
COM_SECONDS = 0.4


def convergence_seconds(
    nodes: int,
    replicas: int,
    sentinels: int,
    observation: float,
    *,
    schedule: float = SCHEDULE_SECONDS,
    com: float = COM_SECONDS,
) -> float:
    rounds = math.ceil(max(0, nodes - replicas) / max(1, sentinels))
    return rounds * (observation + schedule + com)


def overload_percent(replicas: int, sentinels: int) -> float:
    """O = (R+S)/R·100. Pods that end are not in it."""
    return round((replicas + sentinels) / max(1, replicas) * 100, 1)
