"""Media through one TURN port: it works with good credentials, and says why when it does not."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aioice.stun
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from webrtc_detector.ice import Turn
from webrtc_detector.measure import Filming, Target, measure
from webrtc_detector.relay_check import allocate
from webrtc_detector.server import application

from edgewise.exposure.turn import TurnRealm
from tests.integration.webrtc.conftest import FILMING, login, settings
from tests.integration.webrtc.coturn import SECRET, Coturn, free_ports


async def test_boxes_come_back_through_the_relay(coturn: Coturn, detector: TestServer) -> None:
    target = Target(str(detector.make_url("/")), "alice", [login(coturn)])
    report = await measure(target, FILMING)
    assert report.ok, report
    assert report.relayed
    assert report.found >= 0.8 * report.sightings
    assert report.false_boxes == 0
    assert report.gathered_ms < report.answered_ms < report.connected_ms < report.first_sighting_ms
    assert 0 < report.detected_ms.p50 < report.frame_to_box_ms.p50 <= report.frame_to_box_ms.max


async def test_the_client_can_lend_the_server_its_credentials(coturn: Coturn) -> None:
    lends = application(settings(coturn, TURN_USERNAME="", TURN_PASSWORD=""))
    async with TestServer(lends) as server:
        target = Target(str(server.make_url("/")), "alice", [login(coturn)])
        refused = await measure(target, FILMING)
        assert refused.reason == "refused"
        assert "put 'turn' with username and credential" in refused.message
        lending = Target(target.url, "alice", [login(coturn)], share_turn=True)
        assert (await measure(lending, FILMING)).ok


async def test_behind_a_path_prefix_that_a_gateway_strips(
    coturn: Coturn, detector: TestServer
) -> None:
    async def strip(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer right":
            return web.Response(status=401, text="this endpoint needs its token")
        url = detector.make_url("/" + request.match_info["rest"])
        async with ClientSession() as http:
            answer = await http.request(request.method, url, data=await request.read())
            return web.Response(body=await answer.read(), status=answer.status)

    gateway = web.Application()
    gateway.router.add_route("*", "/s/abc/{rest:.*}", strip)
    async with TestServer(gateway) as front:
        for url in ("/s/abc", "/s/abc/"):
            target = Target(str(front.make_url(url)), "alice", [login(coturn)], token="right")
            report = await measure(target, FILMING)
            assert report.ok, report
        stranger = await measure(Target(target.url, "alice", [login(coturn)]), FILMING)
        assert stranger.reason == "refused"
        assert "answered 401: this endpoint needs its token" in stranger.message


async def test_wrong_credentials_are_named(coturn: Coturn, detector: TestServer) -> None:
    forged = coturn.realm(secret="not the secret of the server").credentials("a", now=time.time())
    turn = Turn([coturn.url], forged.username, forged.credential)
    report = await measure(Target(str(detector.make_url("/")), "a", [turn]), FILMING)
    assert report.reason == "no-relay"
    assert "refused the credentials" in report.message
    assert forged.credential not in report.message


async def test_expired_credentials_are_named(coturn: Coturn, detector: TestServer) -> None:
    old = coturn.realm().credentials("alice", now=time.time() - 150)
    turn = Turn([coturn.url], old.username, old.credential)
    report = await measure(Target(str(detector.make_url("/")), "alice", [turn]), FILMING)
    assert report.reason == "no-relay"
    assert re.search(r"expired 3\d seconds ago", report.message)


async def test_credentials_of_another_client_do_not_fit(coturn: Coturn) -> None:
    issued = login(coturn, "alice")
    turn = Turn([coturn.url], issued.username.replace("alice", "mallory"), issued.credential)
    with pytest.raises(aioice.stun.TransactionFailed, match="401"):
        await allocate(turn)


async def test_an_absent_turn_server_is_named(detector: TestServer) -> None:
    turn = Turn([f"turn:127.0.0.1:{free_ports('127.0.0.1', 1)}"], "9999999999:a", "x")
    report = await measure(Target(str(detector.make_url("/")), "a", [turn]), FILMING)
    assert report.reason == "no-relay"
    assert "does not answer" in report.message


async def test_a_servers_own_bad_credentials_are_told_to_the_client(coturn: Coturn) -> None:
    async with TestServer(application(settings(coturn, TURN_PASSWORD="wrong"))) as server:
        report = await measure(Target(str(server.make_url("/")), "alice", [login(coturn)]), FILMING)
    assert report.reason == "refused"
    assert "this server got no address from its TURN server" in report.message


@contextlib.asynccontextmanager
async def allocation(turn: Turn) -> AsyncIterator[Any]:
    """What aioice sends a TURN server's requests with."""
    transport, relay = await allocate(turn)
    try:
        yield transport._TurnTransport__inner_protocol
    finally:
        transport.close()
        await asyncio.wait_for(relay.gone.wait(), 10)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Coturn]:
    """Another TURN server, whose relays are at an address that the first one does not allow."""
    server = Coturn(tmp_path, relay="127.0.0.9", peers=("127.0.0.1", "127.0.0.9"))
    try:
        server.wait_until_up()
        yield server
    finally:
        server.stop()


async def test_peers_outside_the_allowed_range_are_not_reached(
    coturn: Coturn, elsewhere: Coturn
) -> None:
    """The server can be reached at 127.0.0.9 alone, and the client's TURN server denies it."""
    async with TestServer(application(settings(elsewhere))) as server:
        report = await measure(
            Target(str(server.make_url("/")), "alice", [login(coturn)]),
            Filming(connect_deadline=4),
        )
    assert report.reason == "not-connected"
    assert "allowed peers" in report.message
    assert "A peer IP 127.0.0.9 denied" in coturn.log.read_text()


@pytest.mark.parametrize(
    "peer", ["127.0.0.2", "10.0.0.1", "169.254.169.254", "192.168.0.1", "224.0.0.1", "8.8.8.8"]
)
async def test_each_denied_peer_is_refused_by_the_deployed_rules(coturn: Coturn, peer: str) -> None:
    """Nothing is sent: coturn refuses when the channel to the peer is asked for."""
    async with allocation(login(coturn)) as requests:
        with pytest.raises(aioice.stun.TransactionFailed, match="403"):
            await requests.channel_bind(0x4000, (peer, 9))


async def test_an_allowed_peer_is_not_refused(coturn: Coturn) -> None:
    async with allocation(login(coturn)) as requests:
        await requests.channel_bind(0x4000, ("127.0.0.1", 9))


async def test_a_relay_outlives_its_credentials_but_no_new_one_is_given(coturn: Coturn) -> None:
    realm = TurnRealm((coturn.url,), SECRET, lifetime=1)
    issued = realm.credentials("brief", now=time.time())
    turn = Turn([coturn.url], issued.username, issued.credential)
    renewal = aioice.stun.Message(
        message_method=aioice.stun.Method.REFRESH, message_class=aioice.stun.Class.REQUEST
    )
    renewal.attributes["LIFETIME"] = 600
    async with allocation(turn) as requests:
        assert await first_refusal(turn) == 401
        answer, _ = await requests.request_with_retry(renewal)
        assert answer.attributes["LIFETIME"] == 300  # and not more than is configured
        await requests.channel_bind(0x4000, ("127.0.0.1", 9))


async def first_refusal(turn: Turn) -> int | None:
    """Tried until then, because coturn's own clock may be late by some seconds."""
    deadline = time.monotonic() + 20
    while True:
        try:
            async with allocation(turn):
                pass
        except aioice.stun.TransactionFailed as refusal:
            return refusal.response.error_code
        assert time.monotonic() < deadline, "never refused"
        await asyncio.sleep(0.2)


async def test_two_secrets_are_accepted_while_one_replaces_the_other(tmp_path: Path) -> None:
    both = ("the old secret of the realm", "the new secret of the realm")
    server = Coturn(tmp_path, secrets=both)
    try:
        server.wait_until_up()
        for secret in both:
            issued = server.realm(secret=secret).credentials("alice", now=time.time())
            async with allocation(Turn([server.url], issued.username, issued.credential)):
                pass
        other = server.realm(secret="some other secret").credentials("alice", now=time.time())
        with pytest.raises(aioice.stun.TransactionFailed, match="401"):
            await allocate(Turn([server.url], other.username, other.credential))
    finally:
        server.stop()


async def test_a_client_cannot_take_all_relays(coturn: Coturn, detector: TestServer) -> None:
    async with contextlib.AsyncExitStack() as open_relays:
        for _ in range(16):
            await open_relays.enter_async_context(allocation(login(coturn, "greedy")))
        target = Target(str(detector.make_url("/")), "greedy", [login(coturn, "greedy")])
        report = await measure(target, FILMING)
        assert report.reason == "no-relay"
        assert "too many connections" in report.message
        async with allocation(login(coturn, "modest")):
            pass
