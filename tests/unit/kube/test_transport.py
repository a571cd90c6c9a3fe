"""Connections that fail in every way, against small servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from edgewise.kube import errors
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.credentials import Fixed, Identity, TokenFile, bearer
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.tls import ClientCertificate, Pem, ServerTrust
from edgewise.kube.transport import kept_alive_socket

from .pems import make_pair
from .servers import one_request, raw_serving, server_tls, serving

OBJECT = {"metadata": {"name": "a", "namespace": "ns"}}


async def say_hello(request: web.Request) -> web.Response:
    return web.json_response(OBJECT)


async def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with Client(Access(server=server)) as client:
            with pytest.raises(
                errors.Unreachable, match="the connection was refused; is it running"
            ):
                await client.version()


async def test_a_name_that_nobody_knows() -> None:
    async with Client(Access(server="https://nowhere.invalid:6443")) as client:
        with pytest.raises(errors.Unreachable, match=r"nowhere\.invalid:6443"):
            await client.version()


async def test_a_server_that_does_not_answer_in_time() -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(silent) as server, Client(Access(server=server), timeout=0.2) as client:
        with pytest.raises(errors.Unreachable, match="did not answer in time"):
            await client.version()


async def test_a_ca_that_does_not_vouch_for_the_server(tmp_path: Path) -> None:
    other = make_pair(tmp_path, "other")[0]
    trust = ServerTrust(authority=Pem(path=str(other)))
    async with (
        serving(say_hello, server_tls(tmp_path)) as server,
        Client(Access(server=server, trust=trust, origin="context 'x'")) as client,
    ):
        with pytest.raises(errors.Untrusted, match=r"certificate-authority .*context 'x'"):
            await client.version()


async def test_a_server_certificate_that_has_expired(tmp_path: Path) -> None:
    trust = ServerTrust(authority=Pem(path=str(tmp_path / "server.crt")))
    tls = server_tls(tmp_path, days=-1)
    async with (
        serving(say_hello, tls) as server,
        Client(Access(server=server, trust=trust)) as client,
    ):
        with pytest.raises(errors.Untrusted, match="certificate has expired"):
            await client.version()


async def test_a_server_name_that_is_not_in_the_certificate(tmp_path: Path) -> None:
    tls = server_tls(tmp_path)
    authority = Pem(path=str(tmp_path / "server.crt"))
    async with serving(say_hello, tls) as server:
        wrong = ServerTrust(authority=authority, server_name="other.example")
        async with Client(Access(server=server, trust=wrong)) as client:
            with pytest.raises(errors.Untrusted, match="Hostname mismatch"):
                await client.get(ConfigMap, "a", "ns")
        right = ServerTrust(authority=authority, server_name="localhost")
        async with Client(Access(server=server, trust=right)) as client:
            assert (await client.get(ConfigMap, "a", "ns")).metadata.name == "a"


async def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    async with (
        serving(say_hello, server_tls(tmp_path)) as server,
        Client(Access(server=server, trust=ServerTrust(verify=False))) as client,
    ):
        assert (await client.get(ConfigMap, "a", "ns")).metadata.name == "a"


async def test_a_plain_server_behind_an_https_address() -> None:
    async with serving(say_hello) as server:
        access = Access(server=server.replace("http:", "https:"))
        async with Client(access) as client:
            with pytest.raises(errors.Unreachable, match="does not answer in TLS"):
                await client.version()


async def test_rotated_client_certificates_are_shown_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.kube.tls.RECHECK_SECONDS", 0.0)
    certificate, key = make_pair(tmp_path, "me")
    seen = []

    async def remember(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("peercert")["serialNumber"])
        return web.json_response(OBJECT)

    tls = server_tls(tmp_path)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate)
    access = Access(
        server="",
        trust=ServerTrust(authority=Pem(path=str(tmp_path / "server.crt"))),
        credentials=Fixed(
            Identity(certificate=ClientCertificate(Pem(path=str(certificate)), Pem(path=str(key))))
        ),
    )
    async with serving(remember, tls) as server:
        access.server = server
        async with Client(access) as client:
            await client.get(ConfigMap, "a", "ns")
            await client.get(ConfigMap, "a", "ns")
            # Half of a rotation: the certificate is new, its key is not there yet.
            new_certificate, new_key = make_pair(tmp_path, "new")
            certificate.write_bytes(new_certificate.read_bytes())
            await client.get(ConfigMap, "a", "ns")
            key.write_bytes(new_key.read_bytes())
            tls.load_verify_locations(certificate)
            await client.get(ConfigMap, "a", "ns")
    assert seen[0] == seen[1] == seen[2] != seen[3]


async def test_a_refused_token_is_read_again_for_the_next_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def check(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer new":
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        return web.json_response(OBJECT)

    async with serving(check) as server:
        access = Access(server=server, credentials=TokenFile(str(token)), origin="context 'x'")
        async with Client(access) as client:
            with pytest.raises(errors.Unauthorized, match="credentials of context 'x': log in"):
                await client.get(ConfigMap, "a", "ns")
            token.write_text("new")
            await client.get(ConfigMap, "a", "ns")


async def test_headers_say_who_asks_and_as_whom() -> None:
    seen: list[Any] = []

    async def remember(request: web.Request) -> web.Response:
        seen.append(request.headers)
        return web.json_response(OBJECT)

    async with serving(remember) as server:
        access = Access(
            server=server,
            credentials=Fixed(Identity(bearer("t"))),
            impersonation=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
        )
        async with Client(access, user_agent="edgewise-test/1") as client:
            await client.get(ConfigMap, "a", "ns")
    (headers,) = seen
    assert headers["User-Agent"] == "edgewise-test/1"
    assert headers["Authorization"] == "Bearer t"
    assert headers.getall("Impersonate-Group") == ["a", "b"]
    assert headers["Accept-Encoding"] == "identity"


async def test_compressed_answers_are_understood() -> None:
    async def compressed(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        body = gzip.compress(b'{"metadata":{"name":"a"}}')
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with (
        serving(compressed) as server,
        Client(Access(server=server, compress=True)) as client,
    ):
        assert (await client.get(ConfigMap, "a", "ns")).metadata.name == "a"


async def test_too_many_requests_say_when_to_come_back() -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.json_response({}, status=429, headers={"Retry-After": "4"})

    async with serving(busy) as server, Client(Access(server=server)) as client:
        with pytest.raises(errors.TooManyRequests) as refusal:
            await client.get(ConfigMap, "a", "ns")
    assert refusal.value.retry_after == 4.0


async def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"})

    async with serving(elsewhere) as server, Client(Access(server=server)) as client:
        with pytest.raises(errors.ApiError) as refusal:
            await client.get(ConfigMap, "a", "ns")
    assert refusal.value.status == 307


@pytest.mark.parametrize(("method", "repeated"), [("GET", True), ("POST", False), ("PATCH", False)])
async def test_only_idempotent_requests_survive_a_stale_kept_alive_connection(
    method: str, repeated: bool
) -> None:
    heard = 0

    async def close_after_the_first(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal heard
        await one_request(reader)
        heard += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        # The server closes the idle connection at the very moment when it is used again.
        await one_request(reader)
        heard += 1

    async with (
        raw_serving(close_after_the_first) as server,
        Client(Access(server=server)) as client,
    ):
        await client.request("GET", "/one")
        body = None if method == "GET" else b"{}"
        if repeated:
            assert await client.request(method, "/two", body=body) == b"{}"
            assert heard == 3
        else:
            with pytest.raises(errors.Unreachable, match="was lost"):
                await client.request(method, "/two", body=body)
            assert heard == 2


async def test_an_answer_that_breaks_off() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()

    async with raw_serving(half) as server, Client(Access(server=server)) as client:
        with pytest.raises(errors.Unreachable, match="was lost"):
            await client.request("POST", "/x", body=b"{}")


EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


@pytest.mark.parametrize("finished", [True, False], ids=["ended", "cut"])
async def test_a_watch_that_is_ended_and_one_that_is_cut_differ(finished: bool) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(chunked(EVENT[:9], EVENT[9:]) + (b"0\r\n\r\n" if finished else b""))
        await writer.drain()

    seen = []
    async with raw_serving(talk) as server, Client(Access(server=server)) as client:

        async def watch() -> None:
            async for change in client.watch(ConfigMap, "ns", resource_version="1"):
                seen.append(change.object.metadata.name)

        if finished:
            await watch()
        else:
            with pytest.raises(errors.Unreachable, match="was lost"):
                await watch()
    assert seen == ["a"]


async def test_a_half_open_watch_is_given_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(EVENT))
        await reader.read()  # until the client gives up

    async with raw_serving(talk) as server, Client(Access(server=server)) as client:
        with pytest.raises(errors.Silent, match="silent for too long"):
            async for _ in client.watch(ConfigMap, "ns", resource_version="1", idle_timeout=0.2):
                pass


async def test_the_kernel_looks_after_connections_that_are_quiet() -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))
    with kept_alive_socket(address) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


async def test_a_watch_that_is_refused_is_a_typed_error() -> None:
    async def gone(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Expired", "code": 410}, status=410)

    async with serving(gone) as server, Client(Access(server=server)) as client:
        with pytest.raises(errors.Gone):
            async for _ in client.watch(ConfigMap, "ns", resource_version="1"):
                pass


async def test_a_proxy_is_asked_for_a_tunnel(tmp_path: Path) -> None:
    asked = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await one_request(reader)
        asked.append(head.split(b"\r\n")[0])
        _, target, _ = head.split(b" ", 2)
        host, _, port = target.decode().partition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
            sink.close()

        await asyncio.gather(
            pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True
        )

    trust = ServerTrust(authority=Pem(path=str(tmp_path / "server.crt")))
    async with (
        serving(say_hello, server_tls(tmp_path)) as server,
        raw_serving(tunnel) as proxy,
        Client(Access(server=server, trust=trust, proxy=proxy)) as client,
    ):
        assert (await client.get(ConfigMap, "a", "ns")).metadata.name == "a"
    assert asked == [f"CONNECT {server.removeprefix('https://')} HTTP/1.1".encode()]


async def test_a_proxy_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        proxy = f"http://me:hunter2@127.0.0.1:{unused.getsockname()[1]}"
        access = Access(server="https://127.0.0.1:1", proxy=proxy)
        async with Client(access) as client:
            with pytest.raises(errors.Unreachable, match="check proxy-url or HTTPS_PROXY") as told:
                await client.version()
    assert "hunter2" not in str(told.value)


async def test_a_watch_does_not_wait_for_ever_for_a_proxy_that_says_nothing() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client gives up

    async with (
        raw_serving(deaf) as proxy,
        Client(Access(server="https://edge.example:6443", proxy=proxy)) as client,
    ):
        changes = client.watch(ConfigMap, resource_version="1", idle_timeout=0.2)
        with pytest.raises(errors.Unreachable, match="nobody answers"):
            await asyncio.wait_for(anext(changes), 10)


async def test_a_client_outside_async_with_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client(Access(server="http://127.0.0.1:1")).version()


async def test_the_password_of_a_proxy_does_not_show() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with raw_serving(refuse) as proxy:
        secret = proxy.replace("://", "://me:hunter2@")
        async with Client(Access(server="https://edge.example:6443", proxy=secret)) as client:
            with pytest.raises(errors.Unreachable, match="HTTP 407 Proxy Authentication") as caught:
                await client.get(ConfigMap, "a", "ns")
    assert "hunter2" not in str(caught.value)
