"""HTTP and WebSocket through real Envoy: what is reached, and what is not."""

import asyncio
import hashlib
import secrets

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from edgewise.testing.gateway_rig import LOOPBACK, owner, route
from edgewise.testing.ports import free_port
from tests.integration.gateway.conftest import running, short_directory

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def gateway(shared_gateway):
    return shared_gateway


async def get(http, gateway, path, **more):
    """The status and the answer for a path that is sent exactly as written."""
    url = URL(gateway.url(path), encoded=True)
    async with http.get(url, allow_redirects=False, **more) as answer:
        kind = answer.content_type
        body = await answer.json() if kind == "application/json" else await answer.text()
        return answer.status, body


async def send_raw(port: int, text: str) -> str:
    """For requests that no client library would send."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(text.encode("latin-1"))
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
    writer.close()
    return (head + body).decode("latin-1")


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ("/s/seat-a/http", "/"),
        ("/s/seat-a/http/", "/"),
        ("/s/seat-a/http/x/y?q=1&r=%2F", "/x/y?q=1&r=%2F"),
        ("/s/seat-a/http?q=1", "/?q=1"),
        ("/s/seat-a/http/a%20b", "/a%20b"),
        ("/s/seat-a/http/a%2Fb", "/a%2Fb"),
        ("/s/seat-a/http//a//b", "//a//b"),
        ("/s/seat-a/http/x/../y", "/y"),
        ("/s/seat-a/http/?to=/../../seat-b/http", "/?to=/../../seat-b/http"),
        ("/s/seat-a/http/s/seat-b/http/z", "/s/seat-b/http/z"),
    ],
)
async def test_a_seat_is_served_under_its_path_and_sees_its_own(gateway, pods, http, asked, seen):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a"))
    status, body = await get(http, gateway, asked)
    assert status == 200
    assert (body["pod"], body["raw"]) == ("a", seen)
    assert pod.requests[-1].headers["x-forwarded-prefix"] == "/s/seat-a/http"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/s/",
        "/s/seat-a",
        "/s/seat-a/",
        "/s/seat-a0/http/",
        "/s/seat-/http/",
        "/s/SEAT-A/http/",
        "/s/seat-a/httpx",
        "/s/seat-a/htt",
        "/s/seat-a/other/",
        "/s/seat-a/http;x=1/",
        "/x/seat-a/http/",
        "/seat-a/http/",
        "//s/seat-a/http/",
        "/s//seat-a/http/",
        "/s/seat-a//http/",
        "/s/seat-a%2Fhttp/",
        "/s%2Fseat-a/http/",
        "/s/seat-a/http/../",
        "/s/seat-a/%2e%2e/http/",
        "/s/*/http/",
        "/s/seat-a/8080/",
    ],
)
async def test_a_path_that_is_not_exactly_a_seat_and_its_port_leads_nowhere(
    gateway, pods, http, path
):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a"))
    status, body = await get(http, gateway, path)
    assert status == 404
    assert "no such endpoint" in body
    assert not pod.requests


@pytest.mark.parametrize(
    "trick",
    [
        "/s/seat-a/http/../../seat-b/admin/x",
        "/s/seat-a/http/%2e%2e/%2e%2e/seat-b/admin/x",
        "/s/seat-a/http/..%2f..%2fseat-b/admin/x",
        "/s/seat-a/http/..%5c..%5cseat-b/admin/x",
        "/s/seat-a/http/%252e%252e/%252e%252e/seat-b/admin/x",
        "/s/seat-a/http/..;/..;/seat-b/admin/x",
        "/s/seat-a/http//../..//seat-b/admin/x",
        "/s/seat-a/http/.%2e/.%2e/seat-b/admin/x",
        "/s/seat-a/http\\..\\..\\seat-b\\admin\\x",
        "http://seat-b/s/seat-a/http/../../seat-b/admin/x",
    ],
)
async def test_no_trick_with_a_path_opens_what_the_plain_path_does_not(gateway, pods, trick):
    """seat-b has a token. Whatever a path is made to look like, it is either a request
    to seat-a, which has none, or it meets the token check of seat-b, or it is refused."""
    a, b = await pods("a"), await pods("b")
    locked = route(b, "seat-b", port_name="admin", token_sha256=sha256("secret"))
    await gateway.serve("ns/s", route(a, "seat-a"), locked)
    await send_raw(gateway.settings.http_port, f"GET {trick} HTTP/1.1\r\nhost: x\r\n\r\n")
    assert not b.requests


@pytest.mark.parametrize(
    "header",
    [
        "x-envoy-original-dst-host: {b}",
        "x-envoy-original-path: /s/seat-b/http/",
        "x-envoy-upstream-rq-timeout-ms: 1",
        "x-envoy-internal: true",
        "x-envoy-external-address: 203.0.113.9",
        "x-forwarded-host: seat-b",
        "x-original-url: /s/seat-b/http/",
        "x-rewrite-url: /s/seat-b/http/",
        "x-forwarded-prefix: /s/seat-b/http",
        "host: {b}",
        "X-Envoy-Anything: 1",
    ],
)
async def test_headers_of_a_client_do_not_steer(gateway, pods, header):
    a, b = await pods("a"), await pods("b")
    await gateway.serve("ns/s", route(a, "seat-a"), route(b, "seat-b"))
    line = header.format(b=f"{LOOPBACK}:{b.ports['HTTP']}")
    host = "" if line.startswith("host") else "host: x\r\n"
    answer = await send_raw(
        gateway.settings.http_port, f"GET /s/seat-a/http/ HTTP/1.1\r\n{host}{line}\r\n\r\n"
    )
    assert "200 OK" in answer
    assert not b.requests
    [request] = a.requests
    # The one that is left is Envoy's own word on who connected.
    passed = {name.lower() for name in request.headers if name.lower().startswith("x-envoy")}
    assert passed == {"x-envoy-external-address"}
    assert request.headers["x-envoy-external-address"] != "203.0.113.9"
    assert request.headers["x-forwarded-prefix"] == "/s/seat-a/http"


async def test_the_pod_learns_who_really_connected(gateway, pods, http):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a"))
    claims = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    await get(http, gateway, "/s/seat-a/http/", headers=claims)
    seen = pod.requests[-1].headers
    # The last address is the one that Envoy saw itself; what stands before it is hearsay.
    assert seen["x-forwarded-for"].split(",")[-1] != "203.0.113.9"
    assert seen["x-forwarded-proto"] == "http"


async def test_a_large_body_streams_through(gateway, pods, http):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a"))
    piece = secrets.token_bytes(2**20)

    async def body():
        for _ in range(24):
            yield piece

    async with http.post(gateway.url("/s/seat-a/http/"), data=body()) as answer:
        assert (await answer.json())["size"] == 24 * len(piece)


async def test_web_sockets_are_open_in_both_directions(gateway, pods, http):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a"))
    async with http.ws_connect(gateway.url("/s/seat-a/http/chat?x=1")) as chat:
        for word in ("one", "two"):
            await chat.send_str(word)
            assert await chat.receive_str(timeout=30) == f"a {word}"
    assert pod.requests[-1].path_qs == "/chat?x=1"


async def test_a_pod_that_does_not_answer_is_reported_as_such(gateway, pods, http):
    pod = await pods("a")
    dead = route(pod, "seat-a")
    await pod.stop()
    await gateway.serve("ns/s", dead)
    status, body = await get(http, gateway, "/s/seat-a/http/")
    assert status == 503
    assert "does not answer right now" in body


def sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


TOKEN = "tok-1_en.~" + "x" * 60


@pytest.mark.parametrize(
    ("ask", "left"),
    [
        ({"headers": {"authorization": f"Bearer {TOKEN}"}}, "/hi"),
        ({"headers": {"authorization": f"bearer {TOKEN}"}}, "/hi"),
        ({"headers": {"x-edgewise-token": TOKEN}}, "/hi"),
        ({"query": f"?edgewise_token={TOKEN}"}, "/hi"),
        ({"query": f"?a=1&edgewise_token={TOKEN}&b=2"}, "/hi?a=1&b=2"),
        ({"query": f"?edgewise_token={TOKEN.replace('~', '%7E')}"}, "/hi"),
    ],
)
async def test_with_its_token_a_seat_opens_and_the_token_stays_outside(
    gateway, pods, http, ask, left
):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", token_sha256=sha256(TOKEN)))
    path = "/s/seat-a/http/hi" + ask.get("query", "")
    status, body = await get(http, gateway, path, headers=ask.get("headers"))
    assert (status, body["raw"]) == (200, left)
    assert TOKEN not in str(dict(pod.requests[-1].headers))


@pytest.mark.parametrize(
    "ask",
    [
        {},
        {"headers": {"authorization": "Bearer wrong"}},
        {"headers": {"authorization": TOKEN}},
        {"headers": {"authorization": f"Basic {TOKEN}"}},
        {"headers": {"x-edgewise-token": ""}},
        {"headers": {"x-edgewise-token": TOKEN + "x"}},
        {"headers": {"x-edgewise-token": sha256(TOKEN)}},
        {"headers": {"cookie": f"edgewise_token={TOKEN}"}},
        {"query": "?edgewise_token="},
        {"query": "?edgewise_token=" + "y" * 5000},
        {"query": f"?xedgewise_token={TOKEN}"},
    ],
)
async def test_without_its_token_a_seat_stays_closed(gateway, pods, http, ask):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", token_sha256=sha256(TOKEN)))
    path = "/s/seat-a/http/hi" + ask.get("query", "")
    status, body = await get(http, gateway, path, headers=ask.get("headers"))
    assert status == 401
    assert "needs its token" in body
    assert not pod.requests


async def test_the_check_computes_sha256_as_everybody_does(gateway, pods, http):
    """Lengths around the block size of the hash, where implementations go wrong."""
    pod = await pods("a")
    for length in (1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 300, 512):
        token = "".join(secrets.choice("abcdefXYZ0123456789-._~") for _ in range(length))
        await gateway.serve("ns/s", route(pod, "seat-a", token_sha256=sha256(token)))
        assert (await get(http, gateway, "/s/seat-a/http/?edgewise_token=" + token))[0] == 200
        assert (await get(http, gateway, "/s/seat-a/http/?edgewise_token=" + token[1:]))[0] == 401


async def test_a_bearer_token_of_the_application_reaches_the_application(gateway, pods, http):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", token_sha256=sha256(TOKEN)))
    headers = {"authorization": "Bearer its-own", "x-edgewise-token": TOKEN}
    assert (await get(http, gateway, "/s/seat-a/http/", headers=headers))[0] == 200
    assert pod.requests[-1].headers["authorization"] == "Bearer its-own"


async def test_a_web_socket_opens_with_the_token_in_its_query(gateway, pods, http):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", token_sha256=sha256(TOKEN)))
    async with http.ws_connect(gateway.url(f"/s/seat-a/http/?edgewise_token={TOKEN}")) as chat:
        await chat.send_str("hello")
        assert await chat.receive_str(timeout=30) == "a hello"
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await http.ws_connect(gateway.url("/s/seat-a/http/"))


async def test_no_token_is_in_what_envoy_tells_of_its_configuration(gateway, pods):
    pod = await pods("a")
    await gateway.serve("ns/s", route(pod, "seat-a", token_sha256=sha256(TOKEN)))
    status, dump = await gateway.envoy.admin.ask("GET", "/config_dump")
    assert status == 200
    assert b"seat-a" in dump
    assert TOKEN.encode() not in dump


async def test_a_load_balancer_can_ask_for_health(gateway, http):
    async with http.get(gateway.url("/-/healthy")) as answer:
        assert answer.status == 200
    await gateway.envoy.admin.ask("POST", "/healthcheck/fail")
    async with http.get(gateway.url("/-/healthy")) as answer:
        assert answer.status == 503
    await gateway.envoy.admin.ask("POST", "/healthcheck/ok")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def named_gateway():
    with short_directory() as run_dir:
        async with running(run_dir, domain="play.example.org", host_port=free_port()) as gateway:
            yield gateway


class TestWildcardDomain:
    @pytest.fixture
    def gateway(self, named_gateway):
        return named_gateway

    async def ask(self, http, gateway, host, path="/", port=None):
        url = URL(f"http://{LOOPBACK}:{port or gateway.settings.host_port}{path}", encoded=True)
        async with http.get(url, headers={"host": host}) as answer:
            return answer.status, (await answer.json() if answer.status == 200 else "")

    async def test_a_seat_is_served_whole_under_its_own_host_name(self, gateway, pods, http):
        a, b = await pods("a"), await pods("b")
        await gateway.serve(
            "ns/s",
            route(a, "seat-a", hostname="seat-a.play.example.org"),
            route(a, "seat-a", port_name="more", hostname="more-seat-a.play.example.org"),
            route(b, "seat-b", hostname="seat-b.play.example.org"),
        )
        for host in ("seat-b.play.example.org", "seat-b.play.example.org:8081"):
            status, body = await self.ask(http, gateway, host, "/s/seat-a/http/x?y=1")
            assert (status, body["pod"], body["raw"]) == (200, "b", "/s/seat-a/http/x?y=1")
        assert (await self.ask(http, gateway, "more-seat-a.play.example.org"))[1]["pod"] == "a"
        # Paths go on working on their own port.
        assert (await get(http, gateway, "/s/seat-a/http/x"))[1]["raw"] == "/x"

    @pytest.mark.parametrize(
        "host",
        [
            "seat-c.play.example.org",
            "play.example.org",
            "seat-a.other.example.org",
            "x.seat-a.play.example.org",
            "seat-a0.play.example.org",
            "seat-a",
            "127.0.0.1",
        ],
    )
    async def test_another_host_name_leads_nowhere(self, gateway, pods, http, host):
        pod = await pods("a")
        await gateway.serve("ns/s", route(pod, "seat-a", hostname="seat-a.play.example.org"))
        assert (await self.ask(http, gateway, host))[0] == 404
        assert not pod.requests

    async def test_two_ports_cannot_have_one_host_name(self, gateway, pods):
        pod = await pods("a")
        name = "seat-a.play.example.org"
        await gateway.serve("ns/s", route(pod, "seat-a", hostname=name))
        second = route(pod, "seat-a", port_name="second", hostname=name)
        outcome = await gateway.routing.push(owner("ns/s"), [second], timeout=5)
        assert "already taken" in outcome.rejected["seat-a/second"]
