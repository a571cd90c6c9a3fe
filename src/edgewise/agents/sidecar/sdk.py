"""The SDK: HTTP with JSON on the loopback address, for the game and nobody else."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from edgewise.agents.sidecar.said import SaidBook, moment
from edgewise.agents.sidecar.told import Told

LOOPBACK = "127.0.0.1"
LARGEST_BODY = 65_536
MOST_PLAYERS = 1000
MOST_NAMES = 32
# As they are sent: all that a game has said has to fit into one call to the operator.
MOST_BYTES_OF_NAMES = 24_576
LONGEST_RESERVE = 86_400.0
HEARTBEAT_SECONDS = 15.0
# A game needs a few; each is a thread, and the sidecar has 64 MiB.
MOST_CONNECTIONS = 32
MOST_WATCHES = 8
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Mistake(Exception):
    """What is wrong with a request, as a sentence."""


class Sdk:
    """What each path does. A method answers what is sent back."""

    def __init__(self, book: SaidBook, told: Told) -> None:
        self._book = book
        self._told = told

    def get(self, path: str) -> dict[str, Any] | None:
        answers: dict[str, Callable[[], dict[str, Any]]] = {
            "/allow_delete": lambda: {"allowed": bool(self._book.get("allowed", False))},
            "/shutdown": self._asked,
            "/health": lambda: {"healthy": self._book.get("healthy") is not False},
            "/state": self._told.view,
            "/players": lambda: {"players": self._book.get("players", [])},
            "/labels": lambda: self._book.get("labels", {}),
            "/annotations": lambda: self._book.get("annotations", {}),
        }
        found = answers.get(path)
        return found() if found else None

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "/allow_delete": self._allow,
            "/shutdown": self._shut_down,
            "/health": self._well,
            "/ready": self._ready,
            "/allocate": self._allocate,
            "/reserve": self._reserve,
            "/acknowledge": self._acknowledge,
            "/players": self._players,
            "/labels": lambda given: self._names("labels", given),
            "/annotations": lambda given: self._names("annotations", given),
        }
        found = verbs.get(path)
        return found(body) if found else None

    def _asked(self) -> dict[str, Any]:
        found = self._told.view().get("shutdown")
        return found if isinstance(found, dict) else {"shutdown": False}

    def _allow(self, body: dict[str, Any]) -> dict[str, Any]:
        allowed = _truth(body, "allowed")
        self._book.allow(allowed)
        return {"allowed": allowed}

    def _shut_down(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = _truth(body, "shutdown", default=True)
        self._book.say(shutdown=wanted or None)
        return {"shutdown": wanted}

    def _well(self, _: dict[str, Any]) -> dict[str, Any]:
        self._book.well_at = time.monotonic()
        # Only the first word is told, and that it is well again.
        if self._book.get("healthy") is not True:
            self._book.say(healthy=True)
        return {"healthy": True}

    def _ready(self, _: dict[str, Any]) -> dict[str, Any]:
        """Also the end of a match: the Allocation that is known is over."""
        words: dict[str, Any] = {"ready": True, "allocated": None, "reservedUntil": None}
        if self._told.allocation:
            words["released"] = self._told.allocation
        self._book.say(**words)
        return {"ready": True}

    def _allocate(self, _: dict[str, Any]) -> dict[str, Any]:
        self._book.say(allocated=True, reservedUntil=None)
        return {"allocated": True}

    def _reserve(self, body: dict[str, Any]) -> dict[str, Any]:
        seconds = body.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise Mistake("seconds must be a number")
        if not 0 < seconds <= LONGEST_RESERVE:
            raise Mistake(f"seconds must be above 0, and at most {LONGEST_RESERVE:.0f}")
        until = moment(time.time() + seconds)
        self._book.say(reservedUntil=until)
        return {"until": until}

    def _acknowledge(self, _: dict[str, Any]) -> dict[str, Any]:
        allocation = self._told.allocation
        if not allocation:
            raise Mistake("there is no allocation to acknowledge")
        self._book.say(acknowledged=allocation)
        return {"acknowledged": allocation}

    def _players(self, body: dict[str, Any]) -> dict[str, Any]:
        players = body.get("players")
        if not isinstance(players, list) or len(players) > MOST_PLAYERS:
            raise Mistake(f"players must be a list of at most {MOST_PLAYERS} names")
        if not all(isinstance(each, str) and 0 < len(each) <= 128 for each in players):
            raise Mistake("a player must be a name of 1 to 128 characters")
        unique = list(dict.fromkeys(players))
        self._book.say(players=unique)
        return {"players": unique}

    def _names(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        known = {**self._book.get(kind, {}), **body}
        if len(known) > MOST_NAMES:
            raise Mistake(f"there may be {MOST_NAMES} {kind}")
        for name, value in known.items():
            if not _NAME.fullmatch(name):
                raise Mistake(f"{name[:80]!r} cannot be the name of one of the {kind}")
            fits = isinstance(value, str) and (
                len(value) <= 1024 if kind == "annotations" else not value or _NAME.fullmatch(value)
            )
            # Half a character is no text to the operator, which would refuse all words with it.
            if not fits or not _is_text(value):
                raise Mistake(f"the value of {name!r} does not fit into {kind}")
        if len(json.dumps(known)) > MOST_BYTES_OF_NAMES:
            raise Mistake(f"all {kind} together may have {MOST_BYTES_OF_NAMES} bytes of JSON")
        self._book.say(**{kind: known})
        return known


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _truth(body: dict[str, Any], name: str, default: bool | None = None) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise Mistake(f"{name} must be true or false")
    return value


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection, and so many of them: the oldest makes room for the newest, so
    that a game which loses its connections can still say its last words."""

    daemon_threads = True
    # With the usual five, who comes in a crowd is told nothing, and asks again a second later.
    request_queue_size = 128

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}
        self._running = 0
        super().__init__((LOOPBACK, port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            # Those that were cut off need a moment to end.
            if self._running >= 2 * MOST_CONNECTIONS:
                self.shutdown_request(request)
                return
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
            self._running += 1
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._ended(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ended(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is the game's affair: a line for each would fill the log."""

    def _ended(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)
            self._running -= 1


def serve_sdk(port: int, book: SaidBook, told: Told) -> BoundedServer:
    sdk = Sdk(book, told)
    watches = threading.BoundedSemaphore(MOST_WATCHES)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "edgewise"
        timeout = 60

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/watch":
                self._watch()
                return
            self._answer(sdk.get(path))

        def do_POST(self) -> None:
            try:
                body = self._body()
                self._answer(sdk.post(self.path.partition("?")[0], body))
            except Mistake as mistake:
                self.close_connection = True
                self._send(400, {"error": str(mistake)})
            except OSError:
                self._send(500, {"error": "what was said could not be kept: say it again"})

        do_PUT = do_POST

        def _body(self) -> dict[str, Any]:
            # Read as no body, a `{"shutdown": false}` would end the game.
            if self.headers.get("Transfer-Encoding"):
                raise Mistake("the body must be sent with its Content-Length, not in chunks")
            length = self.headers.get("Content-Length") or "0"
            if not length.isdecimal() or len(length) > 9 or int(length) > LARGEST_BODY:
                raise Mistake(f"the body must have a length of at most {LARGEST_BODY}")
            text = self.rfile.read(int(length))
            try:
                body = json.loads(text) if text else {}
            except (ValueError, RecursionError):
                raise Mistake("the body is no JSON") from None
            if not isinstance(body, dict):
                raise Mistake("the body must be an object")
            return body

        def _answer(self, found: dict[str, Any] | None) -> None:
            if found is None:
                self._send(404, {"error": f"the SDK has no {self.command} {self.path[:80]}"})
            else:
                self._send(200, found)

        def _send(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _watch(self) -> None:
            self.close_connection = True
            if not watches.acquire(blocking=False):
                self._send(503, {"error": f"{MOST_WATCHES} watches are open already"})
                return
            try:
                self._stream()
            finally:
                watches.release()

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            version = -1
            while True:
                view, new = told.after(version, HEARTBEAT_SECONDS)
                text = f"data: {json.dumps(view)}\n\n" if new != version else ": still here\n\n"
                version = new
                try:
                    self.wfile.write(text.encode())
                    self.wfile.flush()
                except OSError:
                    return

        def log_message(self, format: str, *arguments: object) -> None:
            """The game calls often: its own log says what it does."""

    return BoundedServer(port, Handler)
