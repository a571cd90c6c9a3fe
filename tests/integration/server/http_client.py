"""Calls of the HTTP API as tests make them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Any


class Caller:
    """Somebody with a token, in front of one server."""

    def __init__(self, http: aiohttp.ClientSession, url: str, token: str = "") -> None:
        self.http = http
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def at(self, url: str) -> Caller:
        moved = Caller(self.http, url)
        moved.headers = self.headers
        return moved

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = {**self.headers, **(headers or {})}
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.http.request(method, self.url + path, data=data, headers=sent) as answer:
            content = await answer.read()
            parsed = json.loads(content) if content and "json" in answer.content_type else content
            return Answer(answer.status, parsed, answer.headers)

    async def events(self, path: str, last_id: str = "") -> AsyncIterator[tuple[str, Any, str]]:
        """(event, data, id of the last event that had one), until the stream ends."""
        sent = dict(self.headers)
        if last_id:
            sent["Last-Event-ID"] = last_id
        id = last_id
        async with self.http.get(self.url + path, headers=sent) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            fields: dict[str, str] = {}
            async for line in answer.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    id = fields.get("id", id)
                    yield fields["event"], json.loads(fields["data"]), id
                    fields = {}
