"""The control port: who may push, what is refused, and what is said while waiting."""

import asyncio
import io
import os
import time

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from edgewise.agents.gateway import control as control_module
from edgewise.agents.gateway.control import Control
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.resource import ResourceType
from edgewise.agents.gateway.routing import Routing
from edgewise.agents.gateway.settings import Settings, SettingsError
from edgewise.agents.gateway.subscriber import Said
from edgewise.agents.gateway.token_file import TokenFile
from edgewise.exposure.route import Owner

TOKEN = "a-token-for-the-operator"
ROUTE = {
    "seat": "seat-a",
    "port_name": "web",
    "protocol": "HTTP",
    "listen_port": 0,
    "address": "10.0.0.1",
    "target_port": 80,
}
PUSH = {"domain": "sessions", "owner": "ns/s", "routes": [ROUTE]}


class Door:
    """A control port on loopback, and a way to play Envoy."""

    def __init__(self, routing, url, http):
        self.routing, self.url, self.http = routing, url, http

    async def push(self, body, token=TOKEN, **more):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if isinstance(body, bytes):
            more["data"] = io.BytesIO(body)
        else:
            more["json"] = body
        async with self.http.post(f"{self.url}/v1/routes", headers=headers, **more) as answer:
            return answer.status, await answer.json()

    async def get(self, path):
        async with self.http.get(self.url + path) as answer:
            return answer.status, await answer.text()

    def envoy(self, *, refuses=""):
        """An Envoy that answers as soon as it is spoken to."""
        self.routing.known.set()
        stream = self.routing.streams.join()
        for type in (ResourceType.CLUSTER, ResourceType.LISTENER, ResourceType.SCOPE):
            self.routing.streams.hear(stream, Said(type=type))

        async def live():
            while True:
                for push in stream.subscriber.pushes():
                    names = push.versions()
                    error = "no" if refuses and refuses in names else ""
                    self.routing.streams.hear(
                        stream, Said(type=push.type, nonce=push.nonce, error=error)
                    )
                await stream.wake.wait()
                stream.wake.clear()

        return asyncio.create_task(live())


@pytest.fixture
async def door():
    metrics = GatewayMetrics(CollectorRegistry())
    routing = Routing(Settings(), metrics, time.monotonic)

    async def figures():
        raise OSError("Envoy does not answer")

    control = Control(
        routing, metrics, lambda: TOKEN, unready=lambda: routing.unready, envoy_figures=figures
    )
    runner = web.AppRunner(control.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as http:
        yield Door(routing, f"http://127.0.0.1:{runner.addresses[0][1]}", http)
    await runner.cleanup()


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], "ä"])
async def test_without_the_token_nothing_is_taken(door, token):
    status, body = await door.push(PUSH, token=token)
    assert (status, body) == (401, {"error": "the token is missing or wrong"})
    assert not door.routing._table.served


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not a push"),
        (b"{", "not a push"),
        (b"[]", "not a push"),
        (b"\xff\xfe", "not a push"),
        ({"domain": "sessions", "owner": "ns/s"}, "routes"),
        ({**PUSH, "domain": ""}, "must name the domain and the owner"),
        ({"owner": "ns/s", "routes": []}, "domain"),
        ({**PUSH, "owner": ""}, "must name the domain and the owner"),
        ({**PUSH, "routes": [ROUTE, ROUTE]}, "only once"),
        ({**PUSH, "routes": [{**ROUTE, "protocol": "SCTP"}]}, "protocol"),
        ({**PUSH, "routes": [{**ROUTE, "target_port": "80"}]}, "target_port"),
        ({**PUSH, "routes": [], "more": 1}, "more"),
    ],
)
async def test_a_body_that_is_no_push_is_refused_by_a_sentence(door, body, says):
    status, answer = await door.push(body)
    assert status == 400
    assert says in answer["error"]


async def test_a_push_that_is_too_large_is_refused(door):
    status, answer = await door.push(b" " * (control_module.MOST_BYTES + 1))
    assert (status, "split it" in answer["error"]) == (413, True)


async def test_without_an_envoy_nobody_waits_but_the_routes_are_kept(door):
    began = time.monotonic()
    status, answer = await door.push(PUSH)
    assert status == 503
    assert answer == {"acked": [], "rejected": {}, "pending": ["seat-a/web"]}
    assert time.monotonic() - began < control_module.ACK_SECONDS
    assert "seat-a/web" in door.routing._table.served


async def test_a_push_is_answered_when_envoy_has_taken_it(door):
    envoy = door.envoy()
    status, answer = await door.push(PUSH)
    assert (status, answer) == (200, {"acked": ["seat-a/web"], "rejected": {}, "pending": []})
    envoy.cancel()


async def test_what_cannot_be_served_is_rejected_with_its_reason(door):
    envoy = door.envoy(refuses="seat-b")
    bad_address = {**ROUTE, "seat": "seat-c", "address": "127.0.0.1"}
    routes = [ROUTE, {**ROUTE, "seat": "seat-b"}, bad_address]
    status, answer = await door.push({**PUSH, "routes": routes})
    assert status == 200
    assert answer["acked"] == ["seat-a/web"]
    assert answer["rejected"]["seat-b/web"] == "no"
    assert "local to a machine" in answer["rejected"]["seat-c/web"]
    # What was rejected is not kept.
    assert list(door.routing._table.served) == ["seat-a/web"]
    envoy.cancel()


async def test_an_envoy_that_is_silent_is_not_waited_for_longer_than_the_operator_does(
    door, monkeypatch
):
    monkeypatch.setattr(control_module, "ACK_SECONDS", 0.1)
    envoy = door.envoy()
    await asyncio.sleep(0)
    envoy.cancel()
    status, answer = await door.push(PUSH)
    assert (status, answer["pending"]) == (200, ["seat-a/web"])


async def test_readiness_says_what_is_missing(door):
    assert await door.get("/healthz") == (200, "ok\n")
    assert await door.get("/readyz") == (503, "the routes are not known yet\n")
    door.routing.known.set()
    assert await door.get("/readyz") == (503, "no Envoy is connected\n")
    envoy = door.envoy()
    await door.push(PUSH)
    assert await door.get("/readyz") == (200, "ok\n")
    envoy.cancel()


async def test_an_entry_point_that_envoy_cannot_open_is_not_ready(door):
    envoy = door.envoy(refuses="http")
    await door.push(PUSH)
    status, text = await door.get("/readyz")
    assert status == 503
    assert "entry point" in text
    envoy.cancel()


async def test_metrics_tell_routes_and_acks_and_no_seat(door):
    envoy = door.envoy()
    await door.push(PUSH)
    status, text = await door.get("/metrics")
    assert status == 200
    assert 'edgewise_gateway_routes{protocol="HTTP"} 1.0' in text
    assert 'edgewise_gateway_acks_total{type="scope"}' in text
    assert "edgewise_gateway_envoys 1.0" in text
    assert 'edgewise_gateway_pushes_total{outcome="acked"} 1.0' in text
    assert "seat-a" not in text
    assert (await door.get("/metrics/envoy"))[0] == 503
    envoy.cancel()


async def test_the_lag_of_a_route_is_measured_and_nothing_is_left_behind(door):
    envoy = door.envoy()
    await door.push(PUSH)
    door.routing.show(Owner("sessions", "ns/s"), [])
    door.routing.show(Owner("sessions", "ns/s"), [])
    await asyncio.sleep(0.01)
    assert door.routing.streams.oldest_change() == 0.0
    _, text = await door.get("/metrics")
    assert "edgewise_gateway_route_lag_seconds_count" in text
    envoy.cancel()


def test_a_token_that_is_replaced_counts_from_then_on(tmp_path):
    file = tmp_path / "token"
    file.write_text("first-token-of-many\n")
    token = TokenFile(file)
    assert token.current() == "first-token-of-many"
    other = tmp_path / "other"
    other.write_text("second-token-of-many")
    os.utime(other, ns=(1, 1))
    other.replace(file)
    assert token.current() == "second-token-of-many"


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 20])
def test_a_token_that_makes_no_sense_changes_nothing(tmp_path, content):
    file = tmp_path / "token"
    file.write_text("first-token-of-many")
    token = TokenFile(file)
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))
    assert token.current() == "first-token-of-many"
    file.unlink()
    assert token.current() == "first-token-of-many"


def test_without_a_sensible_token_the_agent_does_not_start(tmp_path):
    file = tmp_path / "token"
    file.write_text("short")
    with pytest.raises(SettingsError, match="less than 16"):
        TokenFile(file)
