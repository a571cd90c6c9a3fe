"""RTP timestamps, by which both sides know which picture is meant.

A sender starts them at a random number, and aiortc shows neither the sender nor the receiver
what is on the wire: the sender counts from its own zero, the receiver from the first picture
that arrived. Browsers do show it (`rtpTimestamp`), so it is what goes into the messages.
aiortc keeps the two numbers in private attributes, which are read here and nowhere else.
"""

from __future__ import annotations

from aiortc import RTCRtpReceiver, RTCRtpSender

_WRAP = 1 << 32


class SentTimestamps:
    """From timestamps on the wire to those of the track that we send."""

    def __init__(self, sender: RTCRtpSender) -> None:
        self._sender = sender
        self._origin: int | None = None

    def sent(self, timestamp: int) -> None:
        """The picture with this timestamp of ours is on its way, and the next one is not."""
        if self._origin is None:
            on_the_wire: int = getattr(self._sender, "_RTCRtpSender__rtp_timestamp")  # noqa: B009
            self._origin = (on_the_wire - timestamp) % _WRAP

    def ours(self, on_the_wire: int) -> int | None:
        if self._origin is None:
            return None
        return (on_the_wire - self._origin) % _WRAP


class ReceivedTimestamps:
    """From timestamps of pictures that arrived to those on the wire."""

    def __init__(self, receiver: RTCRtpReceiver) -> None:
        self._mapper = getattr(receiver, "_RTCRtpReceiver__timestamp_mapper")  # noqa: B009

    def on_the_wire(self, timestamp: int) -> int:
        return (timestamp + int(self._mapper._origin)) % _WRAP
