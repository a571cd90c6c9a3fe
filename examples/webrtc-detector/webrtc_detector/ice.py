"""How a peer is reached: directly, or through a TURN server and nothing else."""

from __future__ import annotations

import re

import aioice.stun
import msgspec
from aiortc import (
    RTCBundlePolicy,
    RTCConfiguration,
    RTCIceServer,
    RTCIceTransportPolicy,
)

_TURN_URL = re.compile(r"turns?:[^?:\s]+(:[0-9]{1,5})?(\?transport=(udp|tcp))?")


class Turn(msgspec.Struct, frozen=True):
    """A TURN server and what to show it; in JSON one entry of a browser's `iceServers`."""

    urls: list[str]
    username: str
    credential: str

    def __post_init__(self) -> None:
        for url in self.urls:
            if not _TURN_URL.fullmatch(url):
                raise ValueError(f"{url!r} is not a TURN URL; write turn:HOST:PORT")
        if not self.urls:
            raise ValueError("a TURN server needs at least one URL, such as turn:HOST:PORT")

    def __repr__(self) -> str:
        return f"Turn(urls={self.urls!r}, username={self.username!r}, credential=…)"


def answer_lost_packets_quickly() -> None:
    """Ask again after 50 ms instead of 500 ms.

    While two relays open to each other, one of the first packets is always lost: with
    aioice's own pause that costs every connection half a second.
    """
    aioice.stun.RETRY_RTO = 0.05


def configuration(turn: Turn | None) -> RTCConfiguration:
    """Relay-only with a TURN server, else this machine's own addresses."""
    if turn is None:
        # An empty list, because None means a public STUN server on the internet.
        return RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
    return RTCConfiguration(
        iceServers=[RTCIceServer(turn.urls, turn.username, turn.credential)],
        iceTransportPolicy=RTCIceTransportPolicy.RELAY,
        bundlePolicy=RTCBundlePolicy.MAX_BUNDLE,  # one relay for video and data together
    )


def candidates(sdp: str) -> list[str]:
    """The types of the ICE candidates in an offer or answer: host, srflx, relay."""
    return re.findall(r"^a=candidate:.* typ (\w+)", sdp, re.MULTILINE)
