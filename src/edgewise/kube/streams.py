"""Exec and port-forward: several byte streams over one websocket.

The first byte of every message names its channel.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import msgspec

from edgewise.kube.bounds import LARGEST_OUTPUT
from edgewise.kube.documents import decode_as
from edgewise.kube.errors import ApiError, Status, TooLarge, Unreachable, error_from_status

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
# Larger messages only cost memory on the way.
CHUNK = 1 << 15


class ExecResult(msgspec.Struct):
    exit_code: int
    stdout: bytes
    stderr: bytes


def exec_params(
    command: Sequence[str], *, container: str, stdin: bool, tty: bool
) -> list[tuple[str, str]]:
    params = [("command", part) for part in command]
    if container:
        params.append(("container", container))
    params += [("stdout", "true"), ("stdin", str(stdin).lower()), ("tty", str(tty).lower())]
    # A terminal mixes both outputs, and the server refuses to be asked for both.
    params.append(("stderr", str(not tty).lower()))
    return params


async def _messages(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[tuple[int, bytes]]:
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY and message.data:
            yield message.data[0], message.data[1:]
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise Unreachable(f"the connection to the pod was lost: {message.data}")


class ExecStream:
    """A running command: iterate for (channel, bytes) of STDOUT and STDERR, send its input."""

    PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        async for channel, data in _messages(self._socket):
            if channel in (STDOUT, STDERR):
                if data:
                    yield channel, data
            elif channel == ERROR:
                self.exit_code = exit_code(data)
        if self.exit_code is None:
            raise Unreachable("the connection to the pod was lost before the command ended")

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            await self._send(STDIN, data[start : start + CHUNK])

    async def close_stdin(self) -> None:
        """Only v5 can say that the input has ended; with v4 the command waits for more."""
        if self._socket.protocol == "v5.channel.k8s.io":
            await self._send(CLOSE, bytes([STDIN]))

    async def resize(self, width: int, height: int) -> None:
        await self._send(RESIZE, msgspec.json.encode({"Width": width, "Height": height}))

    async def communicate(self, stdin: bytes | None = None) -> ExecResult:
        # A command may write before it has read all of its input, so both go on at once.
        feeding = asyncio.create_task(self._feed(stdin)) if stdin is not None else None
        output: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
        size = 0
        try:
            async for channel, data in self:
                output[channel].append(data)
                size += len(data)
                if size > LARGEST_OUTPUT:
                    raise TooLarge(
                        f"the command printed more than {LARGEST_OUTPUT:,} bytes: take its output "
                        "as it comes, with exec_stream"
                    )
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
        return ExecResult(self.exit_code or 0, b"".join(output[STDOUT]), b"".join(output[STDERR]))

    async def _feed(self, stdin: bytes) -> None:
        await self.send(stdin)
        await self.close_stdin()

    async def _send(self, channel: int, data: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes([channel]) + data)
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the connection to the pod was lost: {error}") from error


def exit_code(report: bytes) -> int:
    """The exit code in the final Status of an exec; other failures are raised."""
    status = decode_as(Status, report)
    if status.status == "Success":
        return 0
    causes: list[dict[str, Any]] = (status.details or {}).get("causes") or []
    for cause in causes:
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdecimal():
            return int(cause["message"])
    raise error_from_status(status)


class PortStream:
    """One TCP connection into a pod. Each channel first repeats the port's number."""

    PROTOCOLS = ("v4.channel.k8s.io",)
    _DATA, _ERROR = 0, 1

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def __aiter__(self) -> AsyncIterator[bytes]:
        greeted: set[int] = set()
        async for channel, data in _messages(self._socket):
            if channel not in greeted:
                greeted.add(channel)
            elif channel == self._ERROR and data:
                raise ApiError(500, "PortForward", data.decode(errors="replace").strip())
            elif channel == self._DATA and data:
                yield data

    async def send(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), CHUNK):
                await self._socket.send_bytes(bytes([self._DATA]) + data[start : start + CHUNK])
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the connection to the pod was lost: {error}") from error
