"""Exec, port-forward and logs, against a server that frames as the kubelet does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import WSMsgType, web

from edgewise.kube import errors
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.streams import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT

from .servers import Handler, serving

SUCCESS = {"kind": "Status", "status": "Success"}


def failure(code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


@contextlib.asynccontextmanager
async def pod(handler: Handler) -> AsyncIterator[Client]:
    async with serving(handler) as server, Client(Access(server=server)) as client:
        yield client


async def open_socket(request: web.Request, *protocols: str) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=protocols or ("v5.channel.k8s.io",))
    await socket.prepare(request)
    return socket


async def test_a_command_runs_to_its_end_with_both_outputs() -> None:
    asked: list[Any] = []

    async def run(request: web.Request) -> web.WebSocketResponse:
        asked.append((request.path, request.query.getall("command"), dict(request.query)))
        socket = await open_socket(request)
        for channel, data in ((STDOUT, b""), (STDOUT, b"he"), (STDERR, b"oh"), (STDOUT, b"llo")):
            await socket.send_bytes(bytes([channel]) + data)
        await socket.send_bytes(bytes([ERROR]) + msgspec.json.encode(SUCCESS))
        await socket.close()
        return socket

    async with pod(run) as client:
        result = await client.exec("p", "ns", ["echo", "a b"], container="main")
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"hello", b"oh")
    ((path, command, query),) = asked
    assert path == "/api/v1/namespaces/ns/pods/p/exec"
    assert command == ["echo", "a b"]
    assert (query["container"], query["stdin"], query["tty"]) == ("main", "false", "false")


async def test_the_exit_code_of_a_failed_command_is_returned() -> None:
    async def run(request: web.Request) -> web.WebSocketResponse:
        socket = await open_socket(request)
        await socket.send_bytes(bytes([ERROR]) + msgspec.json.encode(failure(7)))
        await socket.close()
        return socket

    async with pod(run) as client:
        assert (await client.exec("p", "ns", ["false"])).exit_code == 7


async def test_input_is_sent_whole_and_then_closed() -> None:
    async def upper(request: web.Request) -> web.WebSocketResponse:
        socket = await open_socket(request)
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            if message.data[0] == STDIN:
                await socket.send_bytes(bytes([STDOUT]) + message.data[1:].upper())
            elif message.data == bytes([CLOSE, STDIN]):
                break
        await socket.send_bytes(bytes([ERROR]) + msgspec.json.encode(SUCCESS))
        await socket.close()
        return socket

    async with pod(upper) as client:
        text = b"abc" * 50_000
        assert (await client.exec("p", "ns", ["upper"], stdin=text)).stdout == text.upper()


async def test_a_terminal_can_be_resized() -> None:
    seen: list[bytes] = []

    async def terminal(request: web.Request) -> web.WebSocketResponse:
        assert request.query["stderr"] == "false"
        socket = await open_socket(request)
        seen.append((await socket.receive()).data)
        await socket.send_bytes(bytes([ERROR]) + msgspec.json.encode(SUCCESS))
        await socket.close()
        return socket

    async with (
        pod(terminal) as client,
        client.exec_stream("p", "ns", ["sh"], stdin=True, tty=True) as stream,
    ):
        await stream.resize(80, 24)
        async for _ in stream:
            pass
        assert stream.exit_code == 0
    assert seen == [bytes([RESIZE]) + b'{"Width":80,"Height":24}']


async def test_a_connection_that_ends_before_the_command_is_not_a_success() -> None:
    async def vanish(request: web.Request) -> web.WebSocketResponse:
        socket = await open_socket(request)
        await socket.send_bytes(bytes([STDOUT]) + b"half")
        await socket.close()
        return socket

    async with pod(vanish) as client:
        with pytest.raises(errors.Unreachable, match="before the command ended"):
            await client.exec("p", "ns", ["sleep"])


async def test_a_refused_exec_comes_with_the_servers_reason() -> None:
    async def refuse(request: web.Request) -> web.Response:
        status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no pod p"}
        return web.json_response(status, status=404)

    async with pod(refuse) as client:
        with pytest.raises(errors.NotFound, match="no pod p"):
            await client.exec("p", "ns", ["true"])


async def test_an_api_server_sends_a_command_nowhere_else() -> None:
    """What a redirect would take along: the command, and with TLS the client's certificate."""
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with pod(handler) as client:
        with pytest.raises(errors.KubeError, match="redirect"):
            await client.exec("p", "ns", ["true"])
    assert set(asked) == {"/api/v1/namespaces/ns/pods/p/exec"}


async def test_bytes_pass_both_ways_through_a_forwarded_port() -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        assert request.query["ports"] == "8080"
        socket = await open_socket(request, "v4.channel.k8s.io")
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + (8080).to_bytes(2, "little"))
        message = await socket.receive()
        assert message.data[0] == 0
        await socket.send_bytes(b"\0" + message.data[1:][::-1])
        await socket.close()
        return socket

    async with pod(echo) as client, client.port_forward("p", "ns", 8080) as stream:
        await stream.send(b"abc")
        assert [data async for data in stream] == [b"cba"]


async def test_a_port_that_nobody_listens_on_is_told() -> None:
    async def refuse(request: web.Request) -> web.WebSocketResponse:
        socket = await open_socket(request, "v4.channel.k8s.io")
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + (8080).to_bytes(2, "little"))
        await socket.send_bytes(b"\x01connection refused")
        await socket.close()
        return socket

    async with pod(refuse) as client, client.port_forward("p", "ns", 8080) as stream:
        with pytest.raises(errors.ApiError, match="connection refused"):
            [data async for data in stream]


async def test_logs_as_a_whole_and_as_they_come() -> None:
    asked: list[dict[str, str]] = []

    async def log(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        answer = web.StreamResponse()
        await answer.prepare(request)
        for part in (b"one\ntw", b"o\n", b"\xff three"):
            await answer.write(part)
        await answer.write_eof()
        return answer

    async with pod(log) as client:
        whole = await client.logs("p", "ns", container="c", tail=3, previous=True)
        assert whole == "one\ntwo\n\N{REPLACEMENT CHARACTER} three"
        lines = [line async for line in client.follow_logs("p", "ns", since_seconds=9)]
        assert lines == ["one", "two", "\N{REPLACEMENT CHARACTER} three"]
    assert asked == [
        {"container": "c", "tailLines": "3", "previous": "true"},
        {"sinceSeconds": "9", "follow": "true"},
    ]
