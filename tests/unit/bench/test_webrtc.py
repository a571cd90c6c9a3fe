"""What `edgewise bench join --workload webrtc` runs, and what it makes of what it saw."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewise.api.sessions import SessionTemplate
from edgewise.bench.sessions import webrtc_sample
from edgewise.bench.sessions.webrtc import Connected, figures, target
from edgewise.bench.sessions.webrtc_films import Film, FilmFailed, Line
from edgewise.bench.sessions.webrtc_sample import (
    NoSample,
    check_sample,
    cold_template,
    sample_template,
)
from edgewise.client import IceServer, Seat
from edgewise.client.sessions.seat import JoinRequest
from edgewise.client.sessions.views import ClientView
from edgewise.client.transport import Transport


def connected(boxes: float, *pictures: float) -> Connected:
    return Connected(boxes - 0.5, boxes - 0.1, boxes, list(pictures))


def test_the_figures_say_how_far_connecting_is_beyond_a_bare_pod() -> None:
    said = figures([2.0, 2.0, 4.0], [connected(2.5, 90, 110), connected(2.75, 100)], [])
    assert said["bare_s"]["p50"] == 2.0
    assert said["connect_s"] == {"n": 2, "p50": 2.5, "p95": 2.75, "p99": 2.75, "max": 2.75}
    assert said["beyond_bare_p50_s"] == 0.5
    assert said["beyond_bare_mean_s"] == round(2.625 - 8 / 3, 4)
    assert said["steps_s"]["seated"]["p50"] == 2.0
    assert said["frame_to_box_ms"]["n"] == 3
    assert said["at_once"]["clients"] == 0


def test_who_did_not_connect_is_counted_and_named() -> None:
    many = [connected(5.0, 500), "m1: the TURN server does not answer"]
    at_once = figures([1.0], [connected(2.0)], many)["at_once"]
    assert (at_once["clients"], at_once["connected"]) == (2, 1)
    assert at_once["seconds"]["max"] == 5.0
    assert at_once["failed"] == ["m1: the TURN server does not answer"]


def test_the_measured_template_starts_every_pod_for_its_client() -> None:
    template = cold_template(sample_template(), "default")
    spec = msgspec.convert(template, SessionTemplate).spec
    (pods,) = spec.pod_templates
    assert (pods.warm_pods, spec.reuse, spec.reutilize_timeout_seconds) == (0, "Never", 0)
    (sample,) = sample_template()["spec"]["podTemplates"]
    (measured,) = template["spec"]["podTemplates"]
    same = ("image", "env", "ports", "readinessProbe", "securityContext")
    for field in same:
        (ours,) = measured["template"]["spec"]["containers"]
        (theirs,) = sample["template"]["spec"]["containers"]
        assert ours[field] == theirs[field]


def test_without_the_repository_or_the_library_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check_sample()
    monkeypatch.setattr(webrtc_sample, "NEEDED", ("aiortc", "no_such_library"))
    with pytest.raises(NoSample, match="needs no_such_library: install the extra `webrtc`"):
        check_sample()
    monkeypatch.setattr(webrtc_sample, "SAMPLE", tmp_path / "gone")
    with pytest.raises(NoSample, match="run this from a checkout"):
        check_sample()


def seat(**view: Any) -> Seat:
    found = Seat(Transport("http://127.0.0.1:1", ""), "webrtc", "c1", JoinRequest(), owns=False)
    found._view = ClientView(session="webrtc", client="c1", state="ready", **view)
    return found


async def test_a_client_goes_where_its_seat_says() -> None:
    given = IceServer(["turn:192.0.2.7:3478"], "9:x", "password")
    url = "http://edge/s/x/signal"
    has = seat(
        endpoints={"detector": {"signal": url}}, tokens={"detector": "t"}, ice_servers=[given]
    )
    assert target(has) == {
        "url": url,
        "client": "c1",
        "iceServers": [msgspec.to_builtins(given)],
        "token": "t",
    }
    with pytest.raises(FilmFailed, match="edge gave c1 no TURN server"):
        target(seat(location="edge"))


async def test_a_film_knows_when_its_first_box_came() -> None:
    film = Film()
    for event, milliseconds in (("connected", 200.0), ("box", 90.0), ("boxes", 320.0)):
        film.happened(Line(event, "c1", milliseconds))
    assert film.connected_at is not None
    assert film.boxes_at is not None
    assert film.connected_at <= film.boxes_at
    assert film.frame_to_box_ms == [90.0]
    film.happened(Line("report", "c1", report={"ok": True}))
    await film.end()


async def test_a_client_is_connected_with_its_first_box_and_not_before() -> None:
    film = Film()
    waiting = asyncio.create_task(film.first_box())
    film.happened(Line("connected", "c1", 200.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    film.happened(Line("boxes", "c1", 320.0))
    assert await waiting == film.boxes_at
    assert not film.over
    refused = Film()
    refused.happened(Line("report", "c1", report={"ok": False, "message": "503"}))
    assert refused.over
    with pytest.raises(FilmFailed, match="503"):
        await refused.first_box()


async def test_a_film_that_failed_says_why() -> None:
    film = Film()
    film.happened(Line("report", "c1", report={"ok": False, "message": "no way"}))
    with pytest.raises(FilmFailed, match="no way"):
        await film.end()
    other = Film()
    waiting = asyncio.create_task(other.end())
    other.fail("it is gone")
    with pytest.raises(FilmFailed, match="it is gone"):
        await waiting
