"""One client from offer to boxes, with a clock beside it."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Callable, Sequence

import aiohttp
import msgspec
from aiortc import RTCPeerConnection, RTCSessionDescription

from webrtc_detector.film import Film, Shot
from webrtc_detector.ice import Turn, candidates, configuration
from webrtc_detector.relay_check import why_no_relay
from webrtc_detector.sighting import CHANNEL, Sighting, decode
from webrtc_detector.timing import SentTimestamps

# A box that covers the face about as well as two people would agree on where it is.
_GOOD_OVERLAP = 0.4


class Target(msgspec.Struct, frozen=True, rename="camel"):
    """Where one client goes. `iceServers` as browsers take them; without, it connects directly."""

    url: str
    client: str = "client"
    ice_servers: list[Turn] = []
    # For a gateway that asks for one.
    token: str = ""
    # Also tell the server our TURN credentials, when it is not near the TURN server itself.
    share_turn: bool = False


class Filming(msgspec.Struct, frozen=True):
    seconds: float = 5.0
    width: int = 640
    height: int = 360
    rate: float = 15.0
    connect_deadline: float = 20.0


class Spread(msgspec.Struct, frozen=True):
    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        if not values:
            return None
        cuts = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else values
        return cls(round(statistics.median(values), 1), round(cuts[-1], 1), round(max(values), 1))


class Report(msgspec.Struct, rename="camel"):
    client: str
    url: str
    ok: bool = False
    reason: str = ""  # why it is not ok: see REASONS
    message: str = ""
    relayed: bool = False
    # Since the client began to make its offer:
    gathered_ms: float | None = None  # it had its candidates
    answered_ms: float | None = None  # the server had answered the offer
    connected_ms: float | None = None  # the data channel was open
    first_sighting_ms: float | None = None
    # The film:
    frames_sent: int = 0
    sightings: int = 0
    found: int = 0  # sightings with a box on the face
    false_boxes: int = 0  # boxes elsewhere
    dropped: int = 0  # frames that the server skipped because a newer one was there
    frame_to_box_ms: Spread | None = None
    detected_ms: Spread | None = None


# Exit codes are part of the interface, so they have a home.
REASONS = {"no-relay": 3, "unreachable": 4, "refused": 5, "not-connected": 6, "no-boxes": 7}


# What a client can be told of while it runs: "connected" (the data channel is open; milliseconds
# since it began), "boxes" (the first box on the face; the same), and "box" (the milliseconds
# from one picture to its box).
Tell = Callable[[str, float], None]


class Trouble(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def measure(
    target: Target, filming: Filming, tell: Tell = lambda _event, _milliseconds: None
) -> Report:
    """Never raises for what can go wrong out there: the report says it."""
    run = _Run(target, filming, tell)
    try:
        await run.whole()
    except Trouble as trouble:
        run.report.reason, run.report.message = trouble.reason, str(trouble)
    finally:
        await run.connection.close()
    return run.report


class _Run:
    def __init__(self, target: Target, filming: Filming, tell: Tell) -> None:
        self.target, self.filming, self.tell = target, filming, tell
        self.turn = target.ice_servers[0] if target.ice_servers else None
        self.report = Report(target.client, target.url, relayed=self.turn is not None)
        self.connection = RTCPeerConnection(configuration(self.turn))
        self.film = Film(filming.width, filming.height, filming.rate)
        self.timestamps = SentTimestamps(self.connection.addTrack(self.film))
        self.film.on_sent = self.timestamps.sent
        self.started = 0.0
        self.first_find = asyncio.Event()
        self.latencies: list[float] = []
        self.detections: list[float] = []

    async def whole(self) -> None:
        self.started = time.monotonic()
        opened = self._open_channel()
        offer = await self._offer()
        answer = await self._signal(offer)
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        await self._until_open(opened)
        await asyncio.sleep(self.filming.seconds)
        with contextlib.suppress(TimeoutError):  # a busy machine gets a longer film
            await asyncio.wait_for(self.first_find.wait(), self.filming.connect_deadline)
        self._conclude()

    def _since_start(self) -> float:
        return round(1000 * (time.monotonic() - self.started), 1)

    def _open_channel(self) -> asyncio.Event:
        opened = asyncio.Event()
        # Boxes for an old picture are not worth a second transmission.
        channel = self.connection.createDataChannel(CHANNEL, ordered=False, maxRetransmits=0)

        def on_open() -> None:
            self.report.connected_ms = self._since_start()
            self.tell("connected", self.report.connected_ms)
            opened.set()

        channel.on("open", on_open)
        channel.on("message", self._on_message)
        return opened

    async def _offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        self.report.gathered_ms = self._since_start()
        sdp = str(self.connection.localDescription.sdp)
        if self.turn is not None and "relay" not in candidates(sdp):
            raise Trouble("no-relay", await why_no_relay(self.turn, now=time.time()))
        return sdp

    async def _signal(self, sdp: str) -> str:
        body: dict[str, object] = {"sdp": sdp, "type": "offer", "client": self.target.client}
        if self.target.share_turn and self.turn is not None:
            body["turn"] = {"username": self.turn.username, "credential": self.turn.credential}
        url = self.target.url.rstrip("/") + "/offer"
        headers = {"Authorization": f"Bearer {self.target.token}"} if self.target.token else {}
        timeout = aiohttp.ClientTimeout(total=self.filming.connect_deadline)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.post(url, json=body, headers=headers) as response,
            ):
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Trouble("unreachable", f"{url} cannot be reached: {error!r}") from error
        if response.status != 200:
            raise Trouble("refused", f"{url} answered {response.status}: {text[:500]}")
        self.report.answered_ms = self._since_start()
        try:
            return str(msgspec.json.decode(text)["sdp"])
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise Trouble("refused", f"{url} answered with something else: {text[:200]}") from error

    async def _until_open(self, opened: asyncio.Event) -> None:
        left = self.filming.connect_deadline - (time.monotonic() - self.started)
        failed = asyncio.Event()

        def on_state() -> None:
            if self.connection.connectionState == "failed":
                failed.set()

        self.connection.on("connectionstatechange", on_state)
        waits = [asyncio.create_task(event.wait()) for event in (opened, failed)]
        try:
            await asyncio.wait(waits, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not opened.is_set():
            route = (
                "the TURN server relays to no address of the server (see its allowed peers)"
                if self.turn is not None
                else "no address of the server can be reached from here; use TURN"
            )
            raise Trouble("not-connected", f"the server answered, but {route}")

    def _on_message(self, message: str | bytes) -> None:
        arrived = asyncio.get_running_loop().time()
        sighting = decode(message)
        if self.report.first_sighting_ms is None:
            self.report.first_sighting_ms = self._since_start()
        self.report.sightings += 1
        self.report.dropped = sighting.dropped
        self.detections.append(sighting.detected_ms)
        timestamp = self.timestamps.ours(sighting.timestamp)
        shot = self.film.shot(timestamp) if timestamp is not None else None
        if shot is not None:
            self._compare(shot, sighting, arrived)

    def _compare(self, shot: Shot, sighting: Sighting, arrived: float) -> None:
        self.latencies.append(1000 * (arrived - shot.at))
        self.tell("box", round(self.latencies[-1], 1))
        good = [box for box in sighting.boxes if box.overlap(shot.face) >= _GOOD_OVERLAP]
        if good:
            self.report.found += 1
            if not self.first_find.is_set():
                self.tell("boxes", self._since_start())
            self.first_find.set()
        self.report.false_boxes += len(sighting.boxes) - len(good)

    def _conclude(self) -> None:
        report = self.report
        report.frames_sent = self.film.taken
        report.frame_to_box_ms = Spread.of(self.latencies)
        report.detected_ms = Spread.of(self.detections)
        if report.found == 0:
            raise Trouble(
                "no-boxes", f"connected, but {report.sightings} answers held no box on the face"
            )
        report.ok = True
