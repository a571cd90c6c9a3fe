"""What the server's HTTP side refuses, in a sentence, before anything is connected."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiortc import MediaStreamError
from av import VideoFrame
from webrtc_detector.detector import Box
from webrtc_detector.film import Film
from webrtc_detector.ice import Turn
from webrtc_detector.measure import Spread
from webrtc_detector.relay_check import refusal
from webrtc_detector.server import application
from webrtc_detector.settings import from_environment
from webrtc_detector.sighting import Sighting, decode, encode
from webrtc_detector.watching import Detection, watch

VIDEO, DATA = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", "m=application 9 DTLS/SCTP 5000\r\n"
CANDIDATE = "a=candidate:1 1 udp 1 127.0.0.1 9 typ relay\r\n"


@pytest.fixture
async def http() -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(application(from_environment({})))) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not an offer"),
        (b"\xff\xfe", "not an offer"),
        (b"[]", "not an offer"),
        (b'{"type": "offer"}', "required field `sdp`"),
        (b'{"sdp": 1}', "not an offer"),
        (b'{"sdp": "", "type": "answer"}', "must be 'offer'"),
        (b'{"sdp": "", "client": "a\\nb"}', "not an offer"),
        (b'{"sdp": "", "client": ""}', "not an offer"),
        (b'{"sdp": ""}', "has no video"),
        ({"sdp": VIDEO}, "has no data channel"),
        ({"sdp": VIDEO + DATA}, "has no ICE candidate"),
        ({"sdp": VIDEO + DATA + CANDIDATE}, "cannot be read"),
        ({"sdp": f"v=0\r\n{VIDEO}{DATA}{CANDIDATE}"}, "cannot be read"),
        ({"sdp": "", "turn": {"username": "a", "credential": "b"}}, "uses no TURN server"),
    ],
)
async def test_bad_offers_are_refused_and_take_no_seat(
    http: TestClient[Any, Any], body: bytes | dict[str, Any], says: str
) -> None:
    sent = {"data": body} if isinstance(body, bytes) else {"json": body}
    async with http.post("/offer", **sent) as answer:
        assert answer.status == 400
        assert says in (await answer.json())["error"]
    async with http.get("/healthz") as answer:
        assert await answer.json() == {"seats": 1, "clients": {}}


async def test_an_endless_offer_is_cut_off(http: TestClient[Any, Any]) -> None:
    async with http.post("/offer", data=b"x" * 100_000) as answer:
        assert answer.status == 413


async def test_reset_of_an_empty_server_is_fine(http: TestClient[Any, Any]) -> None:
    async with http.post("/reset") as answer:
        assert (answer.status, await answer.json()) == (200, {"closed": 0})


def test_messages_are_what_the_documentation_says() -> None:
    sighting = Sighting(7, 640, 360, [Box("face", 1, 2, 3, 4)], 0.5, 12.0, 3)
    assert encode(sighting) == (
        '{"timestamp":7,"width":640,"height":360,'
        '"boxes":[{"label":"face","x":1,"y":2,"width":3,"height":4}],'
        '"waitedMs":0.5,"detectedMs":12.0,"dropped":3}'
    )
    assert decode(encode(sighting)) == sighting


@pytest.mark.parametrize(
    ("username", "code", "says"),
    [
        ("1000000000:a", 401, "expired 60 seconds ago"),
        ("1000000090:a", 401, "refused the credentials of '1000000090:a'"),
        ("alice", 401, "refused the credentials of 'alice'"),
        ("1000000090:a", 486, "too many connections"),
        ("1000000090:a", 500, "error 500"),
    ],
)
def test_a_turn_servers_refusal_in_words(username: str, code: int, says: str) -> None:
    words = refusal(Turn(["turn:h"], username, "hush"), code, now=1_000_000_060)
    assert says in words
    assert "hush" not in words


def test_spread_of_measurements() -> None:
    assert Spread.of([]) is None
    assert Spread.of([4.0]) == Spread(4.0, 4.0, 4.0)
    assert Spread.of([float(n) for n in range(1, 102)]) == Spread(51.0, 96.0, 101.0)


class SlowDetection(Detection):
    """Looks at a picture only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_look = threading.Semaphore(0)
        self.threads: set[str] = set()

    def _find(self, frame: VideoFrame) -> list[Box]:
        self.threads.add(threading.current_thread().name)
        assert self.may_look.acquire(timeout=10)
        return super()._find(frame)


class Burst:
    """A receiver of which ten pictures arrive at once, and then no more."""

    def __init__(self) -> None:
        self.track = self
        self._RTCRtpReceiver__timestamp_mapper = SimpleNamespace(_origin=1000 - (1 << 32))
        self.pictures = list(range(10))
        self.all_arrived = asyncio.Event()
        self.over = asyncio.Event()

    async def recv(self) -> VideoFrame:
        if not self.pictures:
            self.all_arrived.set()
            await self.over.wait()
            raise MediaStreamError
        if len(self.pictures) == 9:  # let the detector begin with the first
            await asyncio.sleep(0.05)
        number = self.pictures.pop(0)
        frame, _ = Film(320, 180, 10).picture(number)
        frame.pts = number
        return frame


async def test_only_the_newest_picture_is_looked_at_and_not_on_the_event_loop() -> None:
    detection, burst = SlowDetection(), Burst()
    told: asyncio.Queue[Sighting] = asyncio.Queue()
    watching = asyncio.create_task(watch(burst, detection, told.put_nowait))  # type: ignore[arg-type]
    # The detector is blocked, and yet this loop receives everything.
    await asyncio.wait_for(burst.all_arrived.wait(), 10)
    detection.may_look.release(2)
    first, second = [await asyncio.wait_for(told.get(), 10) for _ in range(2)]
    assert (first.timestamp, second.timestamp) == (1000, 1009)
    assert second.dropped == 8
    assert [box.label for box in second.boxes] == ["face"]
    assert second.waited_ms > 0
    burst.over.set()
    await asyncio.wait_for(watching, 10)
    assert told.empty()
    assert {name.rpartition("_")[0] for name in detection.threads} == {"detector"}
    detection.close()
