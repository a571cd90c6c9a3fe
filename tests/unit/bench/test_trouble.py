"""The trouble that the bench makes, and what it tells of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import Any, cast

import pytest

from edgewise.api.sessions import ClientStatus, Failures
from edgewise.bench.sessions.objects import FRAGILE_SERVER, SERVER
from edgewise.bench.sessions.trouble import TroubleBench, _keeps_crashing


@pytest.mark.parametrize(("path", "code"), [("/s/seat/http/crash", 3), ("/s/crashes", 3)])
def test_the_fragile_server_ends_when_it_is_asked_to(path: str, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = FRAGILE_SERVER.replace('("", 8000)', f'("127.0.0.1", {port})')
    assert script.count(str(port)) == 1
    assert len(FRAGILE_SERVER) > len(SERVER)
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", script]) as server:
        try:
            assert ask(port, "/fine").startswith(b"HTTP/1.1 200 OK")
            ask(port, path)
            assert server.wait(10) == code
        finally:
            server.kill()


def ask(port: int, path: str) -> bytes:
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                return connection.recv(4096)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.02)


def test_a_neighbour_is_in_trouble_when_it_waits_for_one_pod_after_others() -> None:
    failures = {"server": Failures(count=3)}
    assert _keeps_crashing(ClientStatus(failures=failures))
    assert not _keeps_crashing(ClientStatus(failures=failures, pods={"server": "p"}))
    assert not _keeps_crashing(ClientStatus(failures={"server": Failures(count=1)}))
    assert not _keeps_crashing(ClientStatus())


def test_every_kind_of_trouble_is_compared_with_a_bare_pod_of_the_same_rounds() -> None:
    bench = TroubleBench(cast("Any", None), "image", lambda _: None)
    bench._times.update(bare=[1.0], calm=[1.1], quota=[1.2], crash=[1.3], image=[1.4])
    figures = bench._figures()
    assert figures["ratios"] == {
        "calm_p50": 1.1,
        "quota_p50": 1.2,
        "crash_p50": 1.3,
        "image_p50": 1.4,
    }
    assert figures["quota_s"]["n"] == 1
