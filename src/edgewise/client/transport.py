"""Requests to the server: typed answers, typed errors, and patience where it is asked for."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from edgewise.client.errors import (
    AlreadySeated,
    ApiError,
    Busy,
    EdgewiseError,
    NotAllowed,
    NotFound,
    Unreachable,
)


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    detail: str = ""
    request_id: str = ""
    location: str = ""


T = TypeVar("T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
# The server says something at least every 15 s; a longer silence is a dead connection.
SILENCE_SECONDS = 40.0
# What is no JSON, or not of its type. msgspec lets the error of broken UTF-8 through as it is.
UNREADABLE_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_problems = msgspec.json.Decoder(Problem)


class Transport:
    def __init__(self, url: str, token: str, *, tls: ssl.SSLContext | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise EdgewiseError(f"{url!r} is not the address of a server: say https://HOST:PORT")
        self.url = url.rstrip("/")
        self.token = token
        self._tls = tls
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS)
        # The token is all that a request carries: a server keeps nothing at its callers.
        self._http = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        body: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
        patience: float = 0.0,
    ) -> T:
        """One call. For `patience` seconds it is repeated if the server asks for that, or is away.

        All calls of this API may be repeated safely.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        pause = 0.1
        while True:
            try:
                content = await self._send(
                    method, path, body=body, query=query, headers=headers, seconds=seconds
                )
                return self._decoded(content, answer)
            except (Busy, Unreachable) as error:
                wait = getattr(error, "retry_after", None) or pause
                # Not all at once when the server comes back.
                wait *= 0.5 + random.random() * 0.5
                if loop.time() + wait > deadline:
                    raise
                await asyncio.sleep(wait)
                pause = min(2.0, pause * 2)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | None,
        query: dict[str, Any] | None,
        headers: dict[str, str] | None,
        seconds: float,
    ) -> bytes:
        http = self._session()
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        url = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with http.request(
                method,
                url,
                data=msgspec.json.encode(body) if body is not None else None,
                headers=sent,
                timeout=timeout,
                allow_redirects=False,
                ssl=self._tls if self._tls is not None else True,
            ) as found:
                content = await found.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"{self.url} does not answer: {_said(error)}") from error
        if found.status >= 300:
            raise refusal(found.status, content, found.headers.get("Retry-After"))
        return content

    def _decoded(self, content: bytes, answer: type[T]) -> T:
        try:
            # No content at all is what a call with nothing to tell answers.
            content = content or b"null"
            return msgspec.json.decode(content, type=answer)
        except UNREADABLE_JSON as error:
            raise EdgewiseError(f"{self.url} answered something unexpected: {error}") from error

    async def events(
        self, path: str, last_event_id: str = ""
    ) -> AsyncGenerator[tuple[str, bytes, str], None]:
        """(event, data, id) until the connection ends; an id is empty where none was sent."""
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "text/event-stream"}
        if last_event_id:
            sent["Last-Event-ID"] = last_event_id
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )
        try:
            async with self._session().get(
                f"{self.url}{path}",
                headers=sent,
                timeout=timeout,
                allow_redirects=False,
                ssl=self._tls if self._tls is not None else True,
            ) as found:
                if found.status >= 300:
                    content = await found.read()
                    raise refusal(found.status, content, found.headers.get("Retry-After"))
                fields: dict[bytes, bytes] = {}
                while line := await found.content.readline():
                    name, _, value = line.rstrip(b"\r\n").partition(b": ")
                    if name:
                        fields[name] = value
                    elif b"event" in fields:
                        id = fields.get(b"id", b"").decode()
                        yield fields[b"event"].decode(), fields.get(b"data", b""), id
                        fields = {}
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"{self.url} does not answer: {_said(error)}") from error

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise RuntimeError("use it inside `async with`")
        return self._http


def refusal(status: int, content: bytes, retry_after: str | None) -> ApiError:
    try:
        problem = _problems.decode(content)
    except UNREADABLE_JSON:
        problem = Problem()  # a proxy on the way wrote it
    kinds: dict[int, type[ApiError]] = {
        401: NotAllowed,
        403: NotAllowed,
        404: NotFound,
        429: Busy,
        502: Busy,
        503: Busy,
        504: Busy,
    }
    kind = kinds.get(status, ApiError)
    if problem.type.endswith("/already-seated"):
        kind = AlreadySeated
    elif problem.type.endswith("/no-place"):
        kind = Busy  # somebody may leave
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
    return kind(
        status,
        problem.type,
        problem.detail,
        request_id=problem.request_id,
        # Zero is no advice: obeyed to the letter, it would be asked again without any pause.
        retry_after=seconds if 0 < seconds < float("inf") else None,
        location=problem.location,
    )


def _said(error: BaseException) -> str:
    # What aiohttp says is about its own sockets; what the system says is about the server.
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host has no address"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error.os_error, ssl.SSLError
    ):
        return os.strerror(error.os_error.errno) if error.os_error.errno else str(error)
    return str(error) or type(error).__name__


def part(name: str) -> str:
    """One part of a path, whatever it holds."""
    return quote(name, safe="")
