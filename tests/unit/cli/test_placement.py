"""What `edgewise placement` says of a placement."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.placement import LatencyPlacement
from edgewise.cli.placement.text import explained, explanation, listed, shown


def placement(**status: Any) -> LatencyPlacement:
    return msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"target": {"name": "web"}, "trigger": "5m"},
            "status": status,
        },
        LatencyPlacement,
    )


def condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": "Because",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


CONVERGED = {
    "phase": "Converged",
    "message": "n1 at 10 ms",
    "round": 2,
    "moves": 1,
    "search": {"number": 1, "beganAt": "2026-01-01T00:00:00Z", "endedAt": "2026-01-01T00:00:10Z"},
    "visited": [{"node": "n2", "why": "Worse"}, {"node": "n3", "why": "NoRoom"}],
    "ranking": [{"node": "n1", "rttMs": 10.0, "clients": 1}],
    "modelSeconds": 9.0,
    "scheduleSeconds": 1.0,
    "comSeconds": 1.0,
    "convergenceSeconds": 10.0,
}

# A status, and a line that is said of it.
SAYS: dict[str, tuple[dict[str, Any], str]] = {
    "nobody looked": ({}, "The operator has not looked at it yet: is it running?"),
    "nobody reports": (
        {"conditions": [condition("Reporting", "False", "no client reports")]},
        "Reporting: no client reports.",
    ),
    "no search yet": (
        {"conditions": [condition("Reporting", "False", "no client reports")]},
        "No search was begun yet.",
    ),
    "what is repeated is said once": (
        {"conditions": [condition("Ready", "False", "Reporting: no client reports")]},
        "No search was begun yet.",
    ),
    "it searches": (
        {"phase": "Searching", "round": 2, "message": "n1 at 9 ms"},
        "It searches: round 2 (n1 at 9 ms).",
    ),
    "where it is": (CONVERGED, "Every node was looked at (n1 at 10 ms)."),
    "why a node is out": (CONVERGED, "n3: kube-scheduler found no room there."),
    "when it looks again": (
        CONVERGED,
        "The next search: at 2026-01-01T00:05:10.000Z (spec.trigger 5m), or after a rollout or a "
        "change of the placement.",
    ),
    "how long it takes": (
        CONVERGED,
        "A search takes 9.0 s by the model (T_S 1.0 s, T_COM 1.0 s measured); "
        "the last one took 10.0 s.",
    ),
    "how long it would take": (
        {"modelSeconds": 9.0},
        "A search takes 9.0 s by the model (nothing is measured yet).",
    ),
}


@pytest.mark.parametrize("sentence", SAYS)
def test_it_explains(sentence: str) -> None:
    status, line = SAYS[sentence]
    assert line in explained(explanation(placement(**status))).splitlines()


def test_the_explanation_as_data_has_what_the_words_have() -> None:
    found = msgspec.to_builtins(explanation(placement(**CONVERGED)))
    assert found["phase"] == "Converged"
    assert [each["what"] for each in found["nodes"]] == ["n2", "n3"]
    assert found["last_search_seconds"] == 10.0


def test_a_placement_is_shown_with_its_ranking() -> None:
    said = shown(placement(**CONVERGED))
    assert said.startswith("web: Converged, search 1, round 2, 1 moves")
    assert "n1" in said
    assert "10.0 ms" in said


def test_a_list_names_namespaces_where_there_are_several() -> None:
    assert listed([]) == "there are no placements"
    assert listed([placement()]).splitlines()[0].startswith("NAME ")
    assert "shop" in listed([placement()], everywhere=True)
