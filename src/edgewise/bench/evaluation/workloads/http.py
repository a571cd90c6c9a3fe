"""A server for one client at a time, as light as can be, so that dozens fit on one machine.

A client holds its pod by asking again and again; a pod whose client is silent is free. So a
design that leads two clients to one pod, or a client to a pod that another one has, is found out.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import aiohttp

from edgewise.bench.evaluation.workloads.workload import Connection, Opened, Workload

PORT = 8000
# A client is taken for gone after so long.
SILENCE_SECONDS = 4.0
TRY_SECONDS = 2.0  # one try: a pod that is going away may take a connection and never answer

SERVER = f"""
import socket, threading, time

NAME = socket.gethostname()
lock, held = threading.Lock(), ["", 0.0]

def answer(line):
    path = line.split(b" ")[1].decode() if line.count(b" ") >= 2 else ""
    asked = dict(part.partition("=")[::2] for part in path.partition("?")[2].split("&"))
    client, now = asked.get("client", ""), time.monotonic()
    with lock:
        if not client:
            return "400 Bad Request", "no client"
        if asked.get("do") == "leave":
            if held[0] == client:
                held[:] = "", 0.0
            return "200 OK", NAME
        if held[0] not in ("", client) and now - held[1] < {SILENCE_SECONDS}:
            return "409 Conflict", "taken"
        held[:] = client, now
        return "200 OK", NAME

def serve(connection):
    with connection:
        while asked := connection.recv(65536):
            status, body = answer(asked.split(b"\\r\\n", 1)[0])
            head = f"HTTP/1.1 {{status}}\\r\\nContent-Length: {{len(body)}}\\r\\n\\r\\n"
            connection.sendall((head + body).encode())

listener = socket.create_server(("", {PORT}), backlog=64)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def pod_spec(image: str) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": image,
        "command": ["python3", "-S", "-E", "-c", SERVER],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }


class HttpWorkload(Workload):
    port = PORT

    def __init__(self, image: str) -> None:
        self._image = image

    def pod_spec(self) -> dict[str, Any]:
        return pod_spec(self._image)

    def connection(self, client: str) -> Connection:
        return HttpConnection(client)


class HttpConnection(Connection):
    """One TCP connection, kept while it leads to a pod that takes the client."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._http: aiohttp.ClientSession | None = None
        self._url = ""

    async def open(self, url: str) -> Opened | None:
        http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1),
            timeout=aiohttp.ClientTimeout(total=TRY_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        try:
            if pod := await self._ask(http, url, "hold"):
                await self.close()
                self._http, self._url = http, url
                return Opened(pod, time.perf_counter())
        except (OSError, aiohttp.ClientError, TimeoutError):
            return None
        finally:
            if self._http is not http:
                await http.close()
        return None

    async def holds(self) -> str:
        if self._http is None:
            return ""
        try:
            return await self._ask(self._http, self._url, "hold")
        except (OSError, aiohttp.ClientError, TimeoutError):
            return ""

    async def goodbye(self) -> None:
        """The pod need not wait for silence before it takes another client."""
        if self._http is not None:
            with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError):
                await self._ask(self._http, self._url, "leave")

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def _ask(self, http: aiohttp.ClientSession, url: str, do: str) -> str:
        """The pod's name; nothing if it has another client."""
        asked = {"client": self._client, "do": do}
        async with http.get(url, params=asked, allow_redirects=False) as answer:
            body = await answer.content.read(256)
            return body.decode(errors="replace") if answer.status == 200 else ""
