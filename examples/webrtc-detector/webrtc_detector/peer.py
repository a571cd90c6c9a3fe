"""One client's connection: video in, boxes out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiortc import (
    MediaStreamTrack,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)

from webrtc_detector.ice import Turn, candidates, configuration
from webrtc_detector.sighting import CHANNEL, Sighting, encode
from webrtc_detector.watching import Detection, watch

log = logging.getLogger(__name__)

CONNECT_DEADLINE = 30.0
# When this much is still unsent, the network is behind and the next boxes would be old news.
_MOST_UNSENT_BYTES = 16 * 1024


class OfferError(ValueError):
    """An offer that cannot lead to a connection; the text says what to change."""


class Peer:
    def __init__(
        self, client: str, turn: Turn | None, detection: Detection, ended: Callable[[Peer], None]
    ) -> None:
        self.client = client
        self._ended = ended
        self._detection = detection
        self._channel: RTCDataChannel | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closed = False
        # Closed while it gathers addresses, aiortc would leave the last one open.
        self._answering = asyncio.Lock()
        self._connection = RTCPeerConnection(configuration(turn))
        self._deadline = asyncio.get_running_loop().call_later(CONNECT_DEADLINE, ended, self)
        self._connection.on("track", self._on_track)
        self._connection.on("datachannel", self._on_channel)
        self._connection.on("connectionstatechange", self._on_state)

    @property
    def state(self) -> str:
        return str(self._connection.connectionState)

    async def answer(self, sdp: str) -> str:
        """Accept an offer; the connection is then made by itself."""
        check_offer(sdp)
        async with self._answering:
            answer = "" if self._closed else await self._answer(sdp)
        if self._closed:
            raise OfferError("a newer offer of the same client, or a reset, came in between")
        if not candidates(answer):
            raise OfferError(
                "this server got no address from its TURN server; "
                "its TURN credentials are wrong or have expired"
            )
        return answer

    async def _answer(self, sdp: str) -> str:
        try:
            await self._connection.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        except Exception as error:  # the parser raises whatever the text made it stumble over
            raise OfferError(f"the offer's SDP cannot be read ({error})") from error
        await self._connection.setLocalDescription(await self._connection.createAnswer())
        return str(self._connection.localDescription.sdp)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._deadline.cancel()
        async with self._answering:
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
            await self._connection.close()

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "video" and self._watching is None:
            (receiver,) = (r for r in self._connection.getReceivers() if r.track is track)
            self._watching = asyncio.create_task(watch(receiver, self._detection, self._tell))
            self._watching.add_done_callback(self._on_watched)

    def _on_watched(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()):
            log.error("client %s: no more boxes", self.client, exc_info=error)

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label == CHANNEL:
            self._channel = channel

    def _on_state(self) -> None:
        log.info("client %s: %s", self.client, self.state)
        if self.state == "connected":
            self._deadline.cancel()
        elif self.state in ("failed", "closed"):
            self._ended(self)

    def _tell(self, sighting: Sighting) -> None:
        channel = self._channel
        if channel is None or channel.readyState != "open":
            return
        if channel.bufferedAmount < _MOST_UNSENT_BYTES:
            channel.send(encode(sighting))


def check_offer(sdp: str) -> None:
    if "m=video" not in sdp:
        raise OfferError("the offer has no video; add a video track before making it")
    if "m=application" not in sdp:
        raise OfferError(f"the offer has no data channel; open one named {CHANNEL!r} first")
    if not candidates(sdp):
        raise OfferError(
            "the offer has no ICE candidate; send it when gathering is complete, and when there "
            "is still none, the client's TURN credentials are wrong or have expired"
        )
