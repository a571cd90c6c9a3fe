"""Traces: the same seed is the same load, and a file that is no trace is told so in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.bench.evaluation.generating import PRESETS, generated, rate_at
from edgewise.bench.evaluation.trace import (
    Do,
    Trace,
    TraceError,
    parsed,
    populations,
    read_file,
    written,
)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_is_the_same_file_and_another_seed_is_not(preset: str) -> None:
    assert written(generated(preset, 7)) == written(generated(preset, 7))
    assert written(generated(preset, 7)) != written(generated(preset, 8))


@given(st.sampled_from(list(PRESETS)), st.integers(0, 10_000), st.floats(0.1, 3))
def test_every_event_has_a_target_that_exists_and_the_file_says_the_same(
    preset: str, seed: int, scale: float
) -> None:
    trace = generated(preset, seed, scale=scale)
    assert parsed(written(trace), "it") == trace  # which checks every event


def test_the_first_minutes_are_those_of_the_whole() -> None:
    whole, part = generated("a", 1), generated("a", 1, minutes=20)
    assert part.events == tuple(event for event in whole.events if event.at <= 1200)
    assert (part.seconds, part.preset) == (1200, "a-first-20-minutes")
    assert parsed(written(part), "it") == part


def clients_at(trace: Trace, minute: float) -> int:
    now = 0
    for at, _, clients in populations(trace.events):
        if at > minute * 60:
            break
        now = clients
    return now


def test_in_a_and_c_clients_leave_for_long_and_in_b_and_d_they_stay() -> None:
    """Averages: one trace alone may look otherwise by chance."""
    left = {
        preset: sum(
            clients_at(trace, 30) / trace.peak
            for trace in (generated(preset, s) for s in range(20))
        )
        / 20
        for preset in ("a", "b", "c", "d")
    }
    assert left["a"] < 0.5
    assert left["c"] < 0.5
    assert left["b"] > 0.8
    assert left["d"] > 0.8


def test_a_poster_hall_is_one_long_session() -> None:
    trace = generated("poster", 1)
    assert [event.do for event in trace.events if "session" in event.do] == [Do.CREATE_SESSION]
    assert trace.seconds == 3600


def test_a_rate_goes_in_straight_lines_and_stays_level_at_its_ends() -> None:
    curve = ((2.0, 1.0), (4.0, 3.0))
    assert [rate_at(curve, minute) for minute in (0, 2, 3, 4, 9)] == [1, 1, 2, 3, 3]


GOOD = written(generated("a", 1))
HEAD = b'{"version":1,"preset":"x","seed":1,"seconds":60,"events":%d}\n'


@pytest.mark.parametrize(
    ("data", "sentence"),
    {
        "nothing": (b"", "is empty"),
        "another file": (b"hello\n", "is no trace"),
        "cut between lines": (b"".join(GOOD.splitlines(keepends=True)[:40]), "was cut: it has 39"),
        "cut in a line": (GOOD[:-9], "was cut"),
        "a first line without end": (b'{"x":' + b"[" * 9999, "is no trace"),
        "a line without end": (HEAD % 1 + b'{"x":' + b"[" * 9999 + b"\n", "line 2: "),
        "a version to come": (GOOD.replace(b'"version":1', b'"version":9', 1), "of version 9"),
        "an unknown event": (HEAD % 1 + b'{"at":1,"do":"fly"}\n', "line 2: Invalid enum value"),
        "an unknown field": (HEAD % 1 + b'{"at":1,"do":"delete-pod","x":1}\n', "unknown field `x`"),
        "time that goes back": (
            HEAD % 2 + b'{"at":9,"do":"delete-pod"}\n{"at":1,"do":"delete-pod"}\n',
            "line 3: 1 s is not between 9 and 60 s",
        ),
        "a name for a path": (
            HEAD % 1 + b'{"at":1,"do":"create-session","session":"../x"}\n',
            "cannot be the name of a session",
        ),
        "a client of no session": (
            HEAD % 1 + b'{"at":1,"do":"create-client","session":"s","client":"c"}\n',
            "there is no session 's' at that time",
        ),
        "a client that is not there": (
            HEAD % 2
            + b'{"at":1,"do":"create-session","session":"s"}\n'
            + b'{"at":1,"do":"delete-client","session":"s","client":"c"}\n',
            "client 'c' is not there",
        ),
        "more than was said": (HEAD % 0 + b'{"at":1,"do":"delete-pod"}\n', "first line says 0"),
        "numbers of no trace": (HEAD.replace(b"60", b"-1") % 0, "numbers that no trace has"),
    }.values(),
)
def test_what_is_no_trace_is_refused_with_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match="it") as refused:
        parsed(data, "it")
    assert sentence in str(refused.value)


def test_a_preset_that_does_not_exist_and_a_rate_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there are a, b, c, d, poster"):
        generated("z", 1)
    with pytest.raises(TraceError, match="-1 times as high is no rate"):
        generated("a", 1, scale=-1)
    with pytest.raises(TraceError, match="has 30 minutes: say more than 0, up to that"):
        generated("a", 1, minutes=31)
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_file(tmp_path / "none")
