"""The sidecar beside a game that floods it, and behind an operator that answers without end."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from edgewise.agents.sidecar import health, operator_link, sdk
from edgewise.agents.sidecar.operator_link import NotHeard, OperatorLink
from edgewise.agents.sidecar.said import SaidBook
from edgewise.agents.sidecar.told import Told
from edgewise.testing.ports import free_port

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: "


@pytest.fixture
def book(tmp_path: Path) -> SaidBook:
    return SaidBook(tmp_path / "said.json")


@pytest.fixture
def port(book: SaidBook) -> Iterator[int]:
    number = free_port()
    server = sdk.serve_sdk(number, book, Told("one"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield number
    server.shutdown()
    server.server_close()


def says(port: int, path: str, body: object = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", path, json.dumps(body or {}))
        return connection.getresponse().status
    finally:
        connection.close()


def test_many_connections_cost_few_threads_and_the_last_word_is_heard(
    port: int, book: SaidBook
) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(200):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            held.sendall(b"POST /ready HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        assert says(port, "/allow_delete", {"allowed": True}) == 200
        assert threading.active_count() - before <= 2 * sdk.MOST_CONNECTIONS
    assert book.get("allowed") is True


def test_a_crowd_that_comes_at_once_is_let_in_before_anybody_is_served(book: SaidBook) -> None:
    """Otherwise the kernel drops them without a word, and the last word comes seconds late."""
    server = sdk.serve_sdk(0, book, Told("one"))
    with ExitStack() as stack:
        stack.callback(server.server_close)
        for _ in range(3 * sdk.MOST_CONNECTIONS):
            where = ("127.0.0.1", server.server_port)
            stack.enter_context(socket.create_connection(where, timeout=0.5))


def test_so_many_watches_are_open_and_no_more(port: int) -> None:
    with ExitStack() as stack:

        def watch() -> bytes:
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            held.sendall(b"GET /watch HTTP/1.1\r\nHost: sdk\r\n\r\n")
            return held.recv(12)

        for _ in range(sdk.MOST_WATCHES):
            assert watch() == b"HTTP/1.1 200"
        assert watch() == b"HTTP/1.1 503"
        assert says(port, "/ready") == 200


def test_half_a_character_is_refused_or_no_later_word_would_be_heard(port: int) -> None:
    assert says(port, "/annotations", {"a": "\ud800"}) == 400
    assert says(port, "/annotations", {"a": "\N{SNOWMAN}"}) == 200


@contextmanager
def operator(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answers each call in its own way, as long as the test lasts."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    answer(connection)
            except OSError:
                if listener.fileno() < 0:
                    return

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def drips_a_body(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"1000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def says_continue(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def link_to(url: str, folder: Path, told: Told) -> OperatorLink:
    token = folder / "token"
    token.write_text("t")
    return OperatorLink(url, token, SaidBook(folder / "said.json"), told)


@pytest.mark.parametrize("answer", [drips_a_body, says_continue])
def test_an_answer_without_end_is_given_up(
    answer: Callable[[socket.socket], None], tmp_path: Path
) -> None:
    with operator(answer) as url:
        link = link_to(url, tmp_path, Told("one"))
        begun = time.monotonic()
        with pytest.raises((OSError, http.client.HTTPException, NotHeard)):
            link._ask("GET", "/server", 0.5)
        assert time.monotonic() - begun < 5


def test_after_an_answer_that_is_nested_too_deep_the_next_one_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_link, "FIRST_WAIT", 0.01)
    bodies = [b"[" * 100_000, b'{"state":"Ready"}']

    def answer(connection: socket.socket) -> None:
        body = bodies.pop(0) if bodies else b""
        connection.sendall(HEAD + f"{len(body)}\r\n\r\n".encode() + body)

    told = Told("one")
    with operator(answer) as url:
        link = link_to(url, tmp_path, told)
        threading.Thread(target=link.listen_for_ever, daemon=True).start()
        view, _ = told.after(0, 5.0)
    assert view == {"state": "Ready"}


@pytest.mark.parametrize("way", ["listen_for_ever", "report_for_ever"])
def test_a_game_that_takes_all_threads_of_the_pod_does_not_end_its_sidecar(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_link, "FIRST_WAIT", 0.01)
    refused: list[bool] = []

    class Timer(threading.Timer):
        def start(self) -> None:
            if not refused:
                refused.append(True)
                raise RuntimeError("can't start new thread")
            super().start()

    heard = threading.Event()

    def answer(connection: socket.socket) -> None:
        heard.set()
        connection.sendall(HEAD + b"2\r\n\r\n{}")

    with operator(answer) as url:
        link = link_to(url, tmp_path, Told("one"))
        link._book.say(ready=True)
        monkeypatch.setattr(operator_link.threading, "Timer", Timer)
        threading.Thread(target=getattr(link, way), daemon=True).start()
        assert heard.wait(5)


def test_a_full_volume_does_not_end_the_watch_over_health(
    book: SaidBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.01)
    tries: list[bool] = []
    heard = threading.Event()

    def say(**words: bool) -> None:
        tries.append(words["healthy"])
        if len(tries) == 1:
            raise OSError(28, "no space left on device")
        heard.set()

    monkeypatch.setattr(book, "say", say)
    rule = health.Health(period=0.0, failures=1, delay=0.0)
    threading.Thread(target=health.watch_health, args=(book, rule), daemon=True).start()
    assert heard.wait(5)
