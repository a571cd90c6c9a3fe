"""The word that a server is Allocated waits while callers do, and nothing else waits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from edgewise.api.games import Allocation, AllocationSpec, ServerStatus, ShutdownAsked
from edgewise.gameservers.server.callers import Callers, postponed
from edgewise.gameservers.server.plan import ServerPlan

NOW = 1000.0
READY = ServerStatus(state="Ready", since="then", node="n1")
TAKEN = replace(READY, state="Allocated", since="now")
HELD = Allocation.named("one", "play", spec=AllocationSpec(server_uid="u"))
FIRST: dict[str, Any] = {"before": READY, "plan": ServerPlan(status=TAKEN), "allocation": HELD}
CASES: dict[str, tuple[dict[str, Any], float | None]] = {
    "while others call it waits": ({}, NOW + 0.2),
    "when nobody calls it is written": ({"quiet_at": NOW}, None),
    "not for longer than five seconds": ({"created": NOW - 5}, None),
    "a plan that does more does not wait": (
        {"plan": ServerPlan(status=TAKEN, delete_pod="why")},
        None,
    ),
    "a status that says more does not wait": (
        {"plan": ServerPlan(status=replace(TAKEN, shutdown=ShutdownAsked(why="x")))},
        None,
    ),
    "that it is Ready again does not wait": (
        {"before": TAKEN, "plan": ServerPlan(status=READY)},
        None,
    ),
    "a game that took itself does not wait": ({"allocation": None}, None),
}


@pytest.mark.parametrize("sentence", CASES)
def test_that(sentence: str) -> None:
    changed, expected = CASES[sentence]
    fields = {"created": NOW - 1, "quiet_at": NOW + 0.2, "now": NOW, **FIRST, **changed}
    assert postponed(**fields) == expected


def test_it_is_quiet_some_time_after_the_last_call() -> None:
    callers = Callers()
    assert callers.quiet_at() < 0
    callers.took(10.0)
    assert callers.quiet_at() == 10.25
