"""What the pods of every case run: a server for one client at a time, as light as can be.

A client holds its pod by asking again and again; a pod whose client is silent is free. So a
design that leads two clients to one pod, or a client to a pod that another one has, is found out.
"""

from __future__ import annotations

from typing import Any

NAMESPACE = "edgewise-evaluation"
PORT = 8000
# A client asks this often, and is taken for gone after so long.
HOLD_SECONDS = 1.0
SILENCE_SECONDS = 4.0

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
    """The same in every case."""
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
