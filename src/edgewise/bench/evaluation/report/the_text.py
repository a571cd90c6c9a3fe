"""What the text that these cases come from says of its own runs, on machines of its own.

Only what it says in words is here: points that its curves go through. Its machines were six cores
of a cloud, with a WebRTC server in each pod; so its seconds are not ours, and its shapes can be.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.bench.evaluation.records import Kind

# Seconds, and the share of clients that waited no longer.
Points = tuple[tuple[float, float], ...]

CASES: Mapping[Kind, Mapping[str, Points]] = {
    Kind.CONNECT: {"edgewise": ((10, 0.8), (32, 1.0))},
    Kind.RECOVER: {"edgewise": ((40, 1.0),), "deployment": ((40, 0.7), (400, 1.0))},
}
CLUSTERS: Mapping[Kind, Mapping[str, Points]] = {
    Kind.CONNECT: {},
    Kind.RECOVER: {"2 clusters": ((10, 0.6),), "3 clusters": ((10, 0.8),)},
}

CONNECT = (
    "Figure 5.4. The text: 80 % of connections below 10 s, 32 s at most; its baselines reach the "
    "lowest latencies of all and take minutes at worst. Crosses are what it says of its framework."
)
RECOVER = (
    "Figure 5.5. The text: always below 40 s; about 30 % of its baselines' recoveries above that, "
    "up to 400 s. Crosses are what it says of them."
)
MEMORY = (
    "Figure 5.2. The text: up to 50 % below the static Deployment, less than it for 80 % of the "
    "time; a little above one Deployment for each session while users come, below it when they go."
)
PROCESSOR = (
    "Figure 5.3. The text: its framework uses more processor than both baselines, most of all "
    "while users come, because controllers work and clients are served sooner."
)
TRACE = "Figure 5.1. The text has four of 30 minutes with several sessions, and one poster session."
MORE_CLUSTERS = (
    "Figure 5.6. The text: both latencies fall with more clusters, connections hardly from two to "
    "three; 60 % of recoveries below 10 s with two clusters, 80 % with three."
)
REUSE = (
    "Figure 5.7. The text: from 0 to 40 s of reuse the slowest connections become faster (three of "
    "four below 10 s), the median hardly; beyond 40 s nothing is gained. From 0 to 60 s memory "
    "rises from 35 to 38 %, processor from 32 to 36 %."
)
