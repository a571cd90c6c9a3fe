"""The middleware of a service: each answer names its pod; from SIGTERM on, connections end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from edgewise.client.placement import HEADER, PodHeader, pod_header


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("POD_NAME", "web-1")
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


async def application(scope: Any, _: Any, send: Any) -> None:
    if scope["type"] == "http":
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})
    else:
        await send({"type": "websocket.accept"})


async def answered(app: PodHeader, kind: str = "http") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read here")

    await app({"type": kind}, receive, send)
    return sent


async def test_each_answer_names_the_pod_and_keeps_its_headers() -> None:
    start, body = await answered(PodHeader(application))
    assert start["headers"] == [(b"content-type", b"text/plain"), (b"edgewise-pod", b"web-1")]
    assert body["body"] == b"hello"


async def test_what_is_not_http_is_left_alone() -> None:
    assert await answered(PodHeader(application), "websocket") == [{"type": "websocket.accept"}]


def test_without_the_variable_the_host_name_is_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAME")
    monkeypatch.setattr("socket.gethostname", lambda: "web-7")
    assert pod_header() == (HEADER, "web-7")


async def test_from_sigterm_on_connections_end_and_the_servers_own_handler_is_called() -> None:
    called: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: called.append(number))
    app = PodHeader(application)
    start, _ = await answered(app)
    assert (b"connection", b"close") not in start["headers"]
    signal.raise_signal(signal.SIGTERM)
    start, _ = await answered(app)
    assert start["headers"][-1] == (b"connection", b"close")
    assert called == [signal.SIGTERM]


async def test_a_server_with_its_own_end_says_so_itself() -> None:
    before = signal.getsignal(signal.SIGTERM)
    app = PodHeader(application, close_when_ending=False)
    assert signal.getsignal(signal.SIGTERM) is before
    app.end()
    start, _ = await answered(app)
    assert start["headers"][-1] == (b"connection", b"close")


def test_a_program_that_handles_no_sigterm_still_ends_with_it() -> None:
    program = """
import os, signal
from edgewise.client.placement import PodHeader
PodHeader(None)
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    assert done.returncode == -signal.SIGTERM
