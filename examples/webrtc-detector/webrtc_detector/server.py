"""The server: HTTP signalling in front of the seats. `python -m webrtc_detector.server`"""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import msgspec
from aiohttp import web

from webrtc_detector.ice import Turn, answer_lost_packets_quickly
from webrtc_detector.peer import OfferError
from webrtc_detector.seats import Full, Seats
from webrtc_detector.settings import Settings, SettingsError, from_environment
from webrtc_detector.watching import Detection

log = logging.getLogger(__name__)

_LARGEST_OFFER = 64 * 1024
SEATS: web.AppKey[Seats] = web.AppKey("seats", Seats)
SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)


class TurnLogin(msgspec.Struct, frozen=True):
    username: str
    credential: str


class Offer(msgspec.Struct, frozen=True):
    sdp: str
    type: str = "offer"
    client: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9._-]{1,128}$")] = "client"
    turn: TurnLogin | None = None


def refusal(status: int, reason: str) -> web.Response:
    return web.json_response({"error": reason}, status=status)


async def offer(request: web.Request) -> web.Response:
    try:
        wanted = msgspec.json.decode(await request.read(), type=Offer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return refusal(400, f"the body is not an offer: {error}")
    if wanted.type != "offer":
        return refusal(400, f"the type must be 'offer', not {wanted.type!r}")
    try:
        turn = _turn_for(wanted, request.app[SETTINGS])
        answer = await request.app[SEATS].take(wanted.client, wanted.sdp, turn)
    except OfferError as error:
        return refusal(400, str(error))
    except Full as error:
        return refusal(503, str(error))
    return web.json_response({"type": "answer", "sdp": answer})


def _turn_for(wanted: Offer, settings: Settings) -> Turn | None:
    """The TURN server is always ours: a client may say who it is there, never where it is."""
    if not settings.turn_urls:
        if wanted.turn is not None:
            raise OfferError("this server uses no TURN server; leave 'turn' out of the offer")
        return None
    if wanted.turn is not None:
        return Turn(settings.turn_urls, wanted.turn.username, wanted.turn.credential)
    if settings.turn is None:
        raise OfferError(
            "this server connects through TURN; put 'turn' with username and credential "
            "in the offer, or set TURN_USERNAME and TURN_PASSWORD on the server"
        )
    return settings.turn


async def reset(request: web.Request) -> web.Response:
    return web.json_response({"closed": await request.app[SEATS].reset()})


async def healthz(request: web.Request) -> web.Response:
    seats = request.app[SEATS]
    return web.json_response({"seats": seats.count, "clients": seats.clients})


def application(settings: Settings) -> web.Application:
    detection = Detection()
    app = web.Application(client_max_size=_LARGEST_OFFER)
    app[SETTINGS] = settings
    app[SEATS] = Seats(settings.max_clients, detection)
    # No path of ours is absolute in any answer: a gateway may strip a prefix before them.
    app.add_routes([web.post("/offer", offer), web.post("/reset", reset)])
    app.add_routes([web.get("/healthz", healthz)])

    async def stop(app: web.Application) -> None:
        await app[SEATS].reset()
        detection.close()

    app.on_shutdown.append(stop)
    return app


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("aioice").setLevel(logging.WARNING)  # it logs addresses for every check
    answer_lost_packets_quickly()
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    app = application(settings)
    try:
        web.run_app(
            app,
            host=settings.host,
            port=settings.port,
            access_log=None,
            print=log.info,
            shutdown_timeout=3,
        )
    except OSError as error:
        print(f"cannot listen on {settings.host}:{settings.port}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
