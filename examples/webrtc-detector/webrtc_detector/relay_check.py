"""Why a TURN server gave no relay: aiortc only leaves the candidate out, without a word."""

from __future__ import annotations

import asyncio
import re

import aioice.stun
import aioice.turn
from aiortc.rtcicetransport import parse_stun_turn_uri

from webrtc_detector.ice import Turn

_DEADLINE = 3.0


class Relay(asyncio.DatagramProtocol):
    """One end of an allocation; nothing is sent through it."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def connection_lost(self, _error: Exception | None) -> None:
        self.gone.set()


async def allocate(turn: Turn) -> tuple[aioice.turn.TurnTransport, Relay]:
    server = parse_stun_turn_uri(turn.urls[0])
    return await aioice.turn.create_turn_endpoint(
        Relay,
        server_addr=(server["host"], server["port"]),
        username=turn.username,
        password=turn.credential,
        ssl=server["scheme"] == "turns",
        transport=server["transport"],
    )


async def why_no_relay(turn: Turn, *, now: float) -> str:
    """Ask the server once more, by hand, and put its answer into a sentence."""
    url = turn.urls[0]
    try:
        async with asyncio.timeout(_DEADLINE):
            transport, relay = await allocate(turn)
            transport.close()
            await relay.gone.wait()  # else the server keeps it for minutes
    except aioice.stun.TransactionFailed as error:
        return refusal(turn, error.response.error_code, now)
    except (TimeoutError, aioice.stun.TransactionTimeout):
        return f"the TURN server {url} does not answer; check its address, port and firewall"
    except OSError as error:
        return f"the TURN server {url} cannot be reached: {error}"
    return f"the TURN server {url} gave a relay only when it was asked a second time; try again"


def refusal(turn: Turn, code: int | None, now: float) -> str:
    if code == 486:
        return (
            f"{turn.username!r} has too many connections open at the TURN server "
            f"{turn.urls[0]}; it forgets dead ones after a few minutes"
        )
    if code != 401:
        return f"the TURN server {turn.urls[0]} refused to relay (error {code})"
    expiry = re.match(r"([0-9]{9,}):", turn.username)
    if expiry and int(expiry[1]) <= now:
        return (
            f"the TURN credentials expired {now - int(expiry[1]):.0f} seconds ago; "
            "ask for new ones and connect again"
        )
    return (
        f"the TURN server {turn.urls[0]} refused the credentials of {turn.username!r}; "
        "the secret is another one, or its clock is wrong"
    )
