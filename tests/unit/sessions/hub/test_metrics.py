"""What the hub counts ends with what it is counted for."""

from __future__ import annotations

from prometheus_client import REGISTRY

from edgewise.sessions.hub.metrics import LATE_MOVES, MOVES, forget_moves


def test_a_location_that_was_taken_out_leaves_no_series_behind() -> None:
    for counter in (MOVES, LATE_MOVES):
        for location in ("stays", "goes"):
            counter.labels(location).inc()
    forget_moves(but_from={"stays"})
    for name in ("edgewise_hub_moves_total", "edgewise_hub_late_moves_total"):
        assert REGISTRY.get_sample_value(name, {"left": "stays"}) == 1
        assert REGISTRY.get_sample_value(name, {"left": "goes"}) is None
