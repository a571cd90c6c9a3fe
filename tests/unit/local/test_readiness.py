"""When a cluster may be called ready."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgewise.local import readiness
from edgewise.testing.ports import free_port


@contextmanager
def coredns(status: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What stands in CoreDNS' place answers this to whoever asks whether it is ready."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: pytest would show it."""

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        monkeypatch.setattr(readiness, "DNS_READY_PORT", server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "known"), [(200, True), (503, False)])
def test_names_are_known_when_coredns_says_so(
    status: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with coredns(status, monkeypatch):
        assert readiness.knows_names("127.0.0.1") is known


def test_names_are_unknown_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "DNS_READY_PORT", free_port())
    assert readiness.knows_names("127.0.0.1") is False
