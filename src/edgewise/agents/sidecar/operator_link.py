"""Tells the operator what the game says, and hears from it what the game should know."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from edgewise.agents.sidecar.said import SaidBook
from edgewise.agents.sidecar.told import Told

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
SAY_SECONDS = 10.0
LISTEN_SECONDS = 40.0  # the operator answers after 25
LARGEST_ANSWER = 1 << 20


class NotHeard(Exception):
    """The operator did not answer as it should."""


# RuntimeError is also that no thread can be started: the game shares the pod's number of them.
_TROUBLES = (OSError, http.client.HTTPException, NotHeard, ValueError, RuntimeError)


class OperatorLink:
    def __init__(self, url: str, token: Path, book: SaidBook, told: Told) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/") + "/gameservers/v1"
        self._secure = parts.scheme == "https"
        self._token = token
        self._book = book
        self._told = told
        # Its own, for two threads that never end: they disturb nobody who seeds the common one.
        self._chance = random.Random()

    def report_for_ever(self) -> None:
        wait = FIRST_WAIT
        while True:
            self._book.wait_unreported()
            words, version = self._book.words()
            try:
                self._ask("PUT", "/said", SAY_SECONDS, json.dumps(_for_operator(words)))
            except _TROUBLES:
                time.sleep(wait * self._chance.uniform(0.5, 1.0))
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                self._book.reported(version)
                wait = FIRST_WAIT

    def listen_for_ever(self) -> None:
        wait, tag = FIRST_WAIT, ""
        while True:
            try:
                query = f"?since={quote(tag)}" if tag else ""
                body, new = self._ask("GET", f"/server{query}", LISTEN_SECONDS)
                if body:
                    view = json.loads(body)
                    if isinstance(view, dict):
                        self._told.news(view)
                    tag = new
            except _TROUBLES:
                time.sleep(wait * self._chance.uniform(0.5, 1.0))
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                wait = FIRST_WAIT

    def _ask(self, method: str, path: str, seconds: float, body: str = "") -> tuple[bytes, str]:
        if not self._host:
            raise NotHeard("no operator is known")
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=seconds)
        # The timeout of a socket begins again with each byte that comes.
        end = threading.Timer(seconds, _cut, (connection,))
        end.daemon = True
        end.start()
        try:
            # Read each time: the kubelet renews it.
            headers = {"Authorization": f"Bearer {self._token.read_text().strip()}"}
            if body:
                headers["Content-Type"] = "application/json"
            connection.request(method, self._path + path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read(LARGEST_ANSWER)
            if answer.length:  # so much of it is missing
                raise NotHeard("the answer was too long, or did not come in time")
            if answer.status not in (200, 204):
                raise NotHeard(f"the operator answered {answer.status}")
            return content, answer.headers.get("ETag", "")
        finally:
            end.cancel()
            connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    """Whoever reads from it meets its end."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _for_operator(words: dict[str, Any]) -> dict[str, Any]:
    """The names of players stay in the pod: only how many there are matters outside."""
    sent = dict(words)
    players = sent.pop("players", None)
    if isinstance(players, list):
        sent["players"] = len(players)
    return sent
