"""When a location is degraded for a template, and when not any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from edgewise.api.global_sessions import Degradation, Location, LocationStatus
from edgewise.api.sessions import SessionTemplate, SessionTemplateSpec
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.choosing.degraded import (
    PORTS_EXHAUSTED,
    Failure,
    Lessons,
    Trials,
    describe,
    mark_of,
    shorten,
)
from tests.unit.sessions.hub.bindings import EPOCH, location

NO_IMAGE = Failure(reason="ErrImagePull", message="not found")
NO_PORT = Failure(reason=PORTS_EXHAUSTED, message="no public UDP port is free")


def template(name: str = "demo", generation: int = 1) -> SessionTemplate:
    return SessionTemplate(
        metadata=ObjectMeta(name=name, namespace="edge", generation=generation),
        spec=SessionTemplateSpec(),
    )


class Scene:
    """One location, whose marks are written as they are planned."""

    def __init__(self) -> None:
        self.lessons = Lessons()
        self.templates = {"demo": template()}
        self.location = location("porto")
        self.now = EPOCH
        self.writes = 0

    def fail(self, failure: Failure = NO_IMAGE, times: int = 1) -> None:
        for _ in range(times):
            self.lessons.failed("porto", self.templates["demo"], failure)

    def look(self, seconds: float = 1.0) -> Degradation | None:
        self.now += timedelta(seconds=seconds)
        plan = self.lessons.plan({"porto": self.location}, self.templates, self.now)
        self.lessons.written()
        marks: dict[str, Any] = dict(self.location.status.degraded)
        for name, mark in plan.get("porto", {}).items():
            marks[name] = mark
            self.writes += 1
        marks = {name: mark for name, mark in marks.items() if mark is not None}
        self.location.status = LocationStatus(degraded=marks)
        return marks.get("demo")


def test_one_client_is_not_enough_and_two_are() -> None:
    scene = Scene()
    scene.fail()
    assert scene.look() is None
    scene.fail()
    mark = scene.look()
    assert mark is not None
    assert (mark.failures, mark.reason, mark.message) == (2, "ErrImagePull", "not found")
    assert timedelta(seconds=30) <= mark.trial - scene.now <= timedelta(seconds=60)
    assert describe(mark, "demo") == (
        "is degraded for demo since 2030-01-01T00:00:02Z: 2 clients in a row were not ready in "
        "time (ErrImagePull: not found)"
    )


def test_one_that_gets_ready_in_between_begins_the_count_again() -> None:
    scene = Scene()
    for _ in range(5):
        scene.fail()
        assert scene.look() is None
        scene.lessons.worked("porto", scene.templates["demo"])
        assert scene.look() is None
    assert scene.writes == 0


def test_a_hundred_at_once_are_one_write_and_one_that_works_lifts_it() -> None:
    scene = Scene()
    scene.fail(times=100)
    assert scene.look() is not None
    scene.fail(times=100)  # of those who were there already
    assert scene.look() is not None
    assert scene.writes == 1
    scene.lessons.worked("porto", scene.templates["demo"])
    assert scene.look() is None
    assert scene.writes == 2


def test_trials_that_fail_are_farther_and_farther_apart() -> None:
    scene = Scene()
    scene.fail(times=2)
    mark = scene.look()
    waits = []
    for _ in range(8):
        assert mark is not None
        since = mark.since
        scene.now = mark.trial
        scene.fail()
        mark = scene.look()
        assert mark is not None
        assert mark.since == since
        waits.append((mark.trial - scene.now).total_seconds())
    assert waits[0] < waits[2] < waits[-1] <= 900
    assert waits[-1] >= 450


def test_a_changed_template_is_another_one() -> None:
    scene = Scene()
    scene.fail(times=2)
    assert scene.look() is not None
    scene.templates["demo"] = template(generation=2)
    # For whoever reads it at once, and then for good.
    assert mark_of(scene.location.status.degraded, scene.templates["demo"]) is None
    assert scene.look() is None
    scene.fail()
    assert scene.look() is None


def test_what_is_gone_is_forgotten() -> None:
    scene = Scene()
    scene.fail(times=2)
    scene.look()
    scene.templates.clear()
    assert scene.look() is None
    assert scene.lessons._streaks == {}


def test_one_client_without_a_port_is_enough_and_one_that_leaves_ends_it() -> None:
    scene = Scene()
    scene.fail(NO_PORT)
    mark = scene.look()
    assert mark is not None
    assert describe(mark, "demo") == "is full: no public UDP port is free"
    scene.fail(NO_PORT)
    assert scene.look() == mark
    scene.lessons.left("paris")
    assert scene.look() == mark
    scene.lessons.left("porto")
    assert scene.look() is None
    scene.fail(NO_PORT)
    assert scene.look() is not None
    # Others use ports, too, who are not the hub's: after a while it is tried again.
    assert scene.look(31) is None


def test_a_location_keeps_a_bounded_number_of_marks() -> None:
    scene = Scene()
    for number in range(100):
        known = scene.templates[f"t-{number}"] = template(f"t-{number}")
        for _ in range(2):
            scene.lessons.failed("porto", known, NO_IMAGE)
        scene.look()
    assert len(scene.location.status.degraded) == 64
    msgspec.json.decode(msgspec.json.encode(scene.location), type=Location)


def test_no_more_marks_are_planned_than_a_location_may_have() -> None:
    scene = Scene()
    for number in range(100):
        known = scene.templates[f"t-{number}"] = template(f"t-{number}")
        for _ in range(2):
            scene.lessons.failed("porto", known, NO_IMAGE)
    scene.look()
    assert len(scene.location.status.degraded) == 64
    # One that is lifted makes room for another.
    del scene.templates["t-0"]
    scene.lessons.failed("porto", scene.templates["t-99"], NO_IMAGE)
    scene.look()
    scene.lessons.failed("porto", scene.templates["t-99"], NO_IMAGE)
    scene.look()
    assert len(scene.location.status.degraded) == 64
    assert "t-99" in scene.location.status.degraded


def test_a_plan_that_could_not_be_written_is_made_again() -> None:
    scene = Scene()
    scene.fail(times=2)
    first = scene.lessons.plan({"porto": scene.location}, scene.templates, scene.now)
    second = scene.lessons.plan({"porto": scene.location}, scene.templates, scene.now)
    assert first.keys() == second.keys() == {"porto"}


def test_one_trial_at_a_time() -> None:
    now = [100.0]
    trials = Trials(lambda: now[0])
    assert trials.open("porto", "demo")
    trials.begin("porto", "demo", 90)
    assert not trials.open("porto", "demo")
    assert trials.open("porto", "other")
    now[0] += 91
    assert trials.open("porto", "demo")
    trials.begin("paris", "demo", 90)
    assert len(trials._until) == 1


def test_a_long_text_loses_its_middle() -> None:
    text = "pulling " + "x" * 400 + " not found"
    short = shorten(text, 100)
    assert len(short) <= 100
    assert short.startswith("pulling ")
    assert short.endswith(" not found")
    assert shorten("short", 100) == "short"
