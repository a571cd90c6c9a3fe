"""One search, written down by hand, and the figures that follow from it."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.placement import Phase
from edgewise.bench.placement.figures import (
    Answers,
    NoSearch,
    Setting,
    extent,
    judged,
    of_searches,
    search_run,
)
from edgewise.bench.placement.timeline import Moment, PodSeen

SETTING = Setting(nodes=["n1", "n2", "n3"], round_trips=[0.0, 10.0, 25.0])


def pod(name: str, node: str, *, sentinel: bool = False, ending: bool = False) -> PodSeen:
    return PodSeen(name, node, sentinel, ending)


def moment(at: float, pods: list[PodSeen], ready: str, **more: Any) -> Moment:
    options: dict[str, Any] = {"phase": Phase.SEARCHING} | more
    return Moment(at=at, pods=tuple(pods), ready=frozenset(ready.split()), **options)


# The replica is on n3; the first sentinel is on n2 and wins, the second is on n1 and wins.
SEARCH = [
    moment(100, [pod("a", "n3")], "a"),
    moment(101, [pod("a", "n3"), pod("s1", "n2", sentinel=True)], "a"),
    moment(102.5, [pod("a", "n3"), pod("s1", "n2", sentinel=True)], "a s1"),
    moment(104, [pod("a", "n3", ending=True), pod("s1", "n2")], "s1", moves=1),
    moment(
        105,
        [pod("a", "n3", ending=True), pod("s1", "n2"), pod("s2", "n1", sentinel=True)],
        "s1",
        moves=1,
    ),
    moment(
        106,
        [pod("a", "n3", ending=True), pod("s1", "n2"), pod("s2", "n1", sentinel=True)],
        "s1 s2",
        moves=1,
    ),
    # Converged is not yet the end: the loser still gets connections.
    moment(
        108,
        [pod("s1", "n2", ending=True), pod("s2", "n1")],
        "s1 s2",
        phase=Phase.CONVERGED,
        moves=2,
        schedule_seconds=1.25,
        com_seconds=0.5,
    ),
    moment(
        108.5,
        [pod("s1", "n2", ending=True), pod("s2", "n1")],
        "s2",
        phase=Phase.CONVERGED,
        moves=2,
        schedule_seconds=1.25,
        com_seconds=0.5,
    ),
    moment(
        114,
        [pod("s2", "n1")],
        "s2",
        phase=Phase.CONVERGED,
        moves=2,
        schedule_seconds=1.25,
        com_seconds=0.5,
    ),
]


def test_it_lasts_from_the_first_sentinel_until_the_last_loser_is_out_of_service() -> None:
    assert extent(SEARCH, 1) == (1, 7)


@pytest.mark.parametrize(
    ("moments", "complaint"),
    [(SEARCH[:1], "no sentinel was created"), (SEARCH[:6], "did not end: Searching")],
)
def test_what_is_no_search_has_no_figures(moments: list[Moment], complaint: str) -> None:
    with pytest.raises(NoSearch, match=complaint):
        extent(moments, 1)


def test_the_figures_of_one_search() -> None:
    run = search_run(SEARCH, SETTING, 1, bare_ready=1.0, default_rtt=[25.0])
    assert run.seconds == 7.5
    assert run.best_at == 7.0
    assert run.node == "n1"
    assert run.rounds == 2
    assert (run.schedule, run.com) == (1.25, 0.5)
    assert run.deschedule == [4.0, 6.0]
    assert (run.least_ready, run.peak_pods, run.moves) == (1, 3, 2)
    assert run.live_pods == 2
    assert run.sentinel_seconds == pytest.approx(3.0 + 3.0)
    assert run.path == [
        (0.0, 25.0, True),
        (1.5, 10.0, False),
        (3.0, 10.0, True),
        (5.0, 0.0, False),
        (7.0, 0.0, True),
    ]


def test_the_figures_of_all_searches_have_the_names_that_were_promised() -> None:
    run = search_run(SEARCH, SETTING, 1, bare_ready=1.0, default_rtt=[25.0, 0.0])
    asked = Answers(requests=10, answers=[], failures=[])
    failed = Answers(requests=10, answers=[], failures=[(1.0, "OSError")])
    found = of_searches([run, run], SETTING, [asked, asked], [asked, failed])
    assert found["s1_mean_s"] == found["s1_min_s"] == found["s1_max_s"] == 7.5
    assert found["s1_model_s"] == 2 * (1 + 1.25 + 0.5)
    assert found["seed_model_s"] == {"s1": 3 * (1 + 1.25 + 5 + 0.5)}
    assert found["s1_overload_pct"] == 200
    assert (found["found_best"], found["runs"], found["rtt_ms"]) == (2, 2, 0)
    assert found["default_rtt_ms"] == 12.5
    assert (found["requests"], found["failed_requests"], found["kept_failed"]) == (40, 0, 1)
    bars = judged(found)
    assert bars["s1_mean_s"]
    assert not bars["s1_model_s"], "7.5 is not within 20 % of 5.5"
    assert not bars["kept_failed"]
    assert bars["failed_requests"]
    assert "probe_s" not in bars, "what was not measured is not judged"
    assert bars["s1_overload_pct"]


def test_an_sla_is_judged_beside_the_full_search() -> None:
    figures = {"sla_s": 8.0, "sla_moves": 1.0, "sla_full_s": 20.0, "sla_full_moves": 1.0}
    assert judged(figures) == {"sla_s": True, "sla_moves": False}
    assert judged({"sla_s": 8.0, "sla_moves": 1.0, "sla_full_s": None}) == {}
