"""An API server that means harm: `python hostile_member.py ATTACK`.

It prints its port, serves until its input ends, and then prints how many bytes it has sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import os
import sys
from collections.abc import Iterator

ATTACKS = {
    "gzip that was not asked for, 512 MiB when unpacked": "gzip",
    "a body without end": "body",
    "headers without end": "headers",
    "answers in between (103) without end": "hints",
    "pages of a list without end": "pages",
    "a page of many small values": "dense",
    "a page of more objects than were asked for": "crowd",
    "a watch event without end": "event",
    "new Sessions in a watch without end": "flood",
}
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"x" * 65_536


def session(name: str, **clients: object) -> dict[str, object]:
    return {
        "apiVersion": "edgewise.dev/v1alpha1",
        "kind": "Session",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7"},
        "spec": {"clients": clients},
    }


def listing(items: list[dict[str, object]], more: str = "") -> bytes:
    body = json.dumps({"metadata": {"resourceVersion": "7", "continue": more}, "items": items})
    return _whole(body.encode())


def _whole(body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (headers, len(body), body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def bomb() -> bytes:
    return _whole(gzip.compress(bytes(512 << 20)), b"Content-Encoding: gzip\r\n")


def dense() -> bytes:
    clients = b",".join(b'"%d":{}' % number for number in range(300_000))
    one = b'{"metadata":{"name":"a"},"spec":{"clients":{%s}}}' % clients
    return _whole(b'{"metadata":{"resourceVersion":"7"},"items":[%s]}' % one)


def crowd() -> bytes:
    items = b",".join([b"{}"] * 190_000)
    return _whole(b'{"metadata":{"resourceVersion":"7"},"items":[%s]}' % items)


# Answers of one piece.
WHOLE = {"gzip": bomb, "dense": dense, "crowd": crowd}


class Hostile:
    def __init__(self, attack: str) -> None:
        self.attack = attack
        self.sent = 0
        self.names = 0
        self.whole = WHOLE[attack]() if attack in WHOLE else b""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                for part in self.answer(head.split(b"\r\n", 1)[0]):
                    writer.write(part)
                    self.sent += len(part)
                    await writer.drain()
                if b"watch=true" in head:
                    await reader.read()
        writer.close()

    def answer(self, asked: bytes) -> Iterator[bytes]:
        watch, probe = b"watch=true" in asked, b"limit=1 " in asked
        match self.attack:
            case "gzip":
                yield self.whole
            case "body":
                yield CHUNKED
                yield from itertools.repeat(chunk(PIECE))
            case "headers":
                yield b"HTTP/1.1 200 OK\r\n"
                yield from itertools.repeat(b"X-More: 1\r\n" * 4096)
            case "hints":
                yield from itertools.repeat(b"HTTP/1.1 103 Early Hints\r\nX: 1\r\n\r\n" * 512)
            case _ if probe:
                yield listing([])
            case _ if watch:
                yield from self.watched()
            case "pages":
                yield listing([self.some(500) for _ in range(100)], "more")
            case _:
                yield self.whole or listing([])

    def watched(self) -> Iterator[bytes]:
        yield CHUNKED
        if self.attack == "event":
            yield chunk(b'{"type":"ADDED","object":{"a":"')
            yield from itertools.repeat(chunk(PIECE))
        while self.attack == "flood":
            event = {"type": "ADDED", "object": self.some(2000)}
            yield chunk(json.dumps(event).encode() + b"\n")

    def some(self, bytes: int) -> dict[str, object]:
        self.names += 1
        return session(f"s{self.names}", a={"connected": True, "note": "x" * bytes})


async def serve(attack: str) -> None:
    hostile = Hostile(attack)
    server = await asyncio.start_server(hostile.talk, "127.0.0.1", 0)
    say(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(sys.stdin.read)
    say(hostile.sent)
    os._exit(0)  # whatever is being sent


def say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
