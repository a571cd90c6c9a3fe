"""What the server tells a client about one picture: the messages on the data channel."""

from __future__ import annotations

import msgspec

from webrtc_detector.detector import Box

CHANNEL = "boxes"


class Sighting(msgspec.Struct, frozen=True, rename="camel"):
    # The RTP timestamp of the picture (90 kHz, wraps at 32 bits): by it a client knows
    # which of its pictures this is about.
    timestamp: int
    width: int
    height: int
    boxes: list[Box]
    # How long the picture waited for the detector, and how long the detector took.
    waited_ms: float
    detected_ms: float
    # Pictures of this client that a newer one replaced before they were looked at.
    dropped: int


def encode(sighting: Sighting) -> str:
    return msgspec.json.encode(sighting).decode()


def decode(message: str | bytes) -> Sighting:
    return msgspec.json.decode(message, type=Sighting)
