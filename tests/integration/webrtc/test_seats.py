"""Who is served: one connection per client, no more clients than seats, and a clean start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from webrtc_detector.measure import Filming, Target, measure
from webrtc_detector.server import application

from tests.integration.webrtc.conftest import FILMING, login, settings
from tests.integration.webrtc.coturn import Coturn

LONG = Filming(seconds=60, width=320, height=180, rate=5)


async def clients(server: TestServer) -> dict[str, str]:
    async with ClientSession() as http, http.get(server.make_url("/healthz")) as answer:
        return (await answer.json())["clients"]


async def until(server: TestServer, wanted: dict[str, str]) -> None:
    deadline = asyncio.get_running_loop().time() + 15
    while (seen := await clients(server)) != wanted:
        assert asyncio.get_running_loop().time() < deadline, seen
        await asyncio.sleep(0.05)


def target(server: TestServer, coturn: Coturn, client: str) -> Target:
    return Target(str(server.make_url("/")), client, [login(coturn, client)])


@contextlib.asynccontextmanager
async def staying(server: TestServer, coturn: Coturn, client: str) -> AsyncIterator[None]:
    film = asyncio.create_task(measure(target(server, coturn, client), LONG))
    try:
        yield
    finally:
        film.cancel()
        await asyncio.gather(film, return_exceptions=True)


async def test_a_full_server_refuses_and_a_left_seat_is_free(
    detector: TestServer, coturn: Coturn
) -> None:
    async with staying(detector, coturn, "alice"):
        await until(detector, {"alice": "connected"})
        refused = await measure(target(detector, coturn, "bob"), FILMING)
        assert refused.reason == "refused"
        assert "answered 503: " in refused.message
        assert "all 1 seats are taken" in refused.message
        assert await clients(detector) == {"alice": "connected"}
    await until(detector, {})
    assert (await measure(target(detector, coturn, "bob"), FILMING)).ok


async def test_a_client_that_comes_again_replaces_its_own_connection(
    detector: TestServer, coturn: Coturn
) -> None:
    async with staying(detector, coturn, "alice"):
        await until(detector, {"alice": "connected"})
        again = await measure(target(detector, coturn, "alice"), FILMING)
        assert again.ok, again


async def test_reset_sends_everybody_away_for_the_next_client(
    detector: TestServer, coturn: Coturn
) -> None:
    async with staying(detector, coturn, "alice"):
        await until(detector, {"alice": "connected"})
        async with ClientSession() as http, http.post(detector.make_url("/reset")) as answer:
            assert await answer.json() == {"closed": 1}
        assert await clients(detector) == {}
        assert (await measure(target(detector, coturn, "bob"), FILMING)).ok


async def test_several_clients_share_a_server_that_has_the_seats(coturn: Coturn) -> None:
    async with TestServer(application(settings(coturn, MAX_CLIENTS="3"))) as server:
        reports = await asyncio.gather(
            *(measure(target(server, coturn, name), FILMING) for name in ("a", "b", "c"))
        )
    assert [report.ok for report in reports] == [True, True, True], reports


async def test_offers_of_one_client_at_the_same_time_leave_one_connection(
    detector: TestServer, coturn: Coturn
) -> None:
    hasty = Filming(seconds=2, width=320, height=180, rate=5, connect_deadline=8)
    reports = await asyncio.gather(
        *(measure(target(detector, coturn, "alice"), hasty) for _ in range(3))
    )
    assert sum(report.ok for report in reports) == 1, reports
    await until(detector, {})
