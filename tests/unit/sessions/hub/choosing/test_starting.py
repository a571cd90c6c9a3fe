"""What becomes of clients whose pods do not become ready, as tables of sentences."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.global_sessions import Failover
from edgewise.api.sessions import Session, SessionSpec, SessionStatus
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.choosing.ranking import Candidate
from edgewise.sessions.hub.choosing.starting import (
    Move,
    Rest,
    Stage,
    look_at,
    may_move,
    next_step,
    ready_seconds,
)
from tests.unit.sessions.hub.bindings import EPOCH, binding, global_session

BAD = "is degraded for demo"


def part(status: dict[str, Any] | None, **fields: Any) -> Session:
    """A Session with alice in it, of whom her cluster says `status`."""
    generation = fields.pop("generation", 3)
    conditions = fields.pop("conditions", [])
    clients = {"alice": status} if status is not None else {}
    said = {"observedGeneration": 3, "conditions": conditions, "clients": clients}
    return Session(
        metadata=ObjectMeta(name="room-1", namespace="edge", generation=generation),
        spec=SessionSpec(clients=fields.pop("clients", {"alice": {"connected": True}})),
        status=msgspec.convert(said, SessionStatus),
    )


DEGRADED = msgspec.to_builtins(
    Condition(
        type="Degraded",
        status="True",
        reason="PodsRefused",
        message="exceeded quota",
        last_transition_time="2030-01-01T00:00:00Z",
    )
)

# sentence: the Session, and: stage, late, exhausted, what is told
SIGHTS: dict[str, tuple[Session | None, tuple[Stage, bool, bool, str]]] = {
    "there is no Session yet": (
        None, (Stage.WAITING, False, False, "its operator says nothing of the client"),
    ),
    "the operator has not seen the client": (
        part(None), (Stage.WAITING, False, False, "its operator says nothing of the client"),
    ),
    "the client is ready": (
        part({"ready": True, "phase": "Ready"}), (Stage.READY, False, False, ""),
    ),
    "the client was ready and is not": (
        part({"phase": "NotReady", "late": True}), (Stage.SERVED, False, False, ""),
    ),
    "the client's pod is being replaced": (
        part({"phase": "Recovering", "late": True}), (Stage.SERVED, False, False, ""),
    ),
    "the client has an address, so it was served": (
        part({"phase": "Starting", "endpoints": {"a": {"b": "c"}}}),
        (Stage.SERVED, False, False, ""),
    ),
    "the operator says why, and that it is late": (
        part({"phase": "Starting", "reason": "Slow", "message": "pulling", "late": True}),
        (Stage.WAITING, True, False, "Slow: pulling"),
    ),
    "an older operator says it of the session only": (
        part({"phase": "Starting"}, conditions=[DEGRADED]),
        (Stage.WAITING, False, False, "PodsRefused: exceeded quota"),
    ),
    "nobody says why": (
        part({"phase": "Starting"}),
        (Stage.WAITING, False, False, "its operator does not say why"),
    ),
    "what the operator said before it saw the last change is not believed": (
        part({"phase": "Starting", "reason": "PortsExhausted", "late": True}, generation=4),
        (Stage.WAITING, False, False, "PortsExhausted"),
    ),
    "what is said of one who is not in the session yet is of an earlier stay": (
        part({"phase": "Starting", "reason": "Slow", "late": True}, clients={}),
        (Stage.WAITING, False, False, "its operator says nothing of the client"),
    ),
    "no port is left, by the reason": (
        part({"phase": "Starting", "reason": "PortsExhausted", "message": "none"}),
        (Stage.WAITING, False, True, "PortsExhausted: none"),
    ),
    "no port is left, by the sentence": (
        part({"phase": "Starting", "message": "no public UDP port is free"}),
        (Stage.WAITING, False, True, "PortsExhausted: no public UDP port is free"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", SIGHTS)
def test_seen_is_that(sentence: str) -> None:
    found, (stage, late, exhausted, told) = SIGHTS[sentence]
    sight = look_at(found, "alice")
    assert (sight.stage, sight.late, sight.exhausted) == (stage, late, exhausted)
    if stage is Stage.WAITING:
        assert sight.failure.text == told


def test_the_deadline_is_the_templates() -> None:
    assert ready_seconds(None) == 60


@pytest.mark.parametrize(
    ("session", "only", "may"),
    [
        ({}, "", True),
        ({}, "porto", False),
        ({"failover": Failover.STAY}, "", False),
    ],
)
def test_who_may_be_moved(session: dict[str, Any], only: str, may: bool) -> None:
    assert may_move(global_session(**session), binding("alice", "porto", only=only).spec) is may


PORTO, PARIS, ROME = Candidate(name="porto"), Candidate(name="paris"), Candidate(name="rome")
LATENCIES = {"porto": 1.0, "paris": 20.0, "rome": 50.0}
LATER = EPOCH + timedelta(minutes=5)

# sentence: what its binding says, the places, and what is done
STEPS: dict[str, tuple[dict[str, Any], list[Candidate], Any]] = {
    "the next best place is tried": (
        {}, [PORTO, PARIS, ROME], (["paris", "rome"], ["porto"]),
    ),
    "not one that was tried in this round": (
        {"cluster": "paris", "tried": ["porto"]}, [PORTO, PARIS, ROME],
        (["rome"], ["porto", "paris"]),
    ),
    "not one that is degraded too": (
        {}, [PORTO, Candidate(name="paris", degraded=BAD), ROME], (["rome"], ["porto"]),
    ),
    "one that is degraded, as a trial": (
        {}, [PORTO, Candidate(name="paris", degraded=BAD, trial=True)], (["paris"], ["porto"]),
    ),
    "when there is only one place, its operator's words are enough": ({}, [PORTO], None),
    "when no other is allowed, too": ({}, [PORTO, Candidate(name="paris", allowed=False)], None),
    "when all were tried, there is a rest": (
        {"cluster": "paris", "tried": ["porto"]}, [PORTO, PARIS],
        (1, ["porto", "paris"], "porto was tried"),
    ),
    "each place that will not do says why": (
        {"rounds": 4},
        [PORTO, Candidate(name="paris", degraded=BAD), Candidate(name="rome", cordoned=True)],
        (5, ["porto"], "paris is degraded for demo; rome is cordoned and takes no new clients"),
    ),
    "during the rest nothing happens": (
        {"cluster": "paris", "tried": ["porto", "paris"], "retry": LATER}, [PORTO, PARIS], None,
    ),
    "after the rest all places may be tried again": (
        {"cluster": "paris", "tried": ["porto", "paris"], "retry": EPOCH, "rounds": 1},
        [PORTO, PARIS, ROME],
        (["porto", "rome"], ["paris"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", STEPS)
def test_then(sentence: str) -> None:
    fields, places, expected = STEPS[sentence]
    said = {"cluster": "porto", "latencies": LATENCIES, **fields}
    spec = binding("alice", **said).spec
    step = next_step(spec, places, now=EPOCH, what="it failed", delay=lambda _: 60.0)
    if isinstance(step, Move):
        assert ([choice.name for choice in step.choices], step.tried) == expected
        assert step.rounds == spec.rounds
    elif isinstance(step, Rest):
        assert (step.rounds, step.tried, step.why.partition(" on: ")[2]) == expected
        assert step.until == EPOCH + timedelta(seconds=60)
        assert step.why.startswith(
            "it failed; other locations are tried again from 2030-01-01T00:01:00Z on: "
        )
    else:
        assert step is expected


@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 500)),
    st.integers(1, 4),
)
def test_no_place_is_tried_twice_in_a_round_and_rounds_are_far_apart(
    names: list[str], latencies: dict[str, float], rounds: int
) -> None:
    """However often it fails: a client that nobody can serve is moved a bounded number of times."""
    places = [Candidate(name=name) for name in names]
    spec = binding("alice", names[0], latencies=latencies).spec
    now, stays = EPOCH, [names[0]]
    for _ in range(rounds * (len(names) + 1)):
        step = next_step(spec, places, now=now, what="it failed")
        if isinstance(step, Move):
            stays.append(step.choices[0].name)
            spec = msgspec.structs.replace(
                spec, location=stays[-1], tried=step.tried, rounds=step.rounds, retry=None
            )
        elif isinstance(step, Rest):
            assert len(stays) == len(set(stays)) == len(names)
            assert step.until >= now + timedelta(seconds=29)
            spec = msgspec.structs.replace(
                spec, tried=step.tried, rounds=step.rounds, retry=step.until
            )
            assert next_step(spec, places, now=now, what="it failed") is None
            now, stays = step.until, [spec.location]
        else:
            assert len(names) == 1
