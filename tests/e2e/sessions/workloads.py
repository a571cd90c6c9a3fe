"""Pods for sessions: a server that says who it is, and remembers who asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from edgewise.kube.objects import Key

IMAGE = "edgewise.local/python:1"
NAMESPACE = "rooms"
HTTP, TCP, UDP, HIDDEN = 8000, 7000, 7001, 9000

# Plain sockets: a framework would take longer to import than the pod takes to start.
# `/` counts its visits, POST /reset forgets them, /ws speaks WebSocket.
SERVER = f"""
import base64, hashlib, json, os, signal, socket, struct, sys, threading

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
name, version = socket.gethostname(), os.environ.get("VERSION", "")
visits = 0

def frame(connection):
    head = take(connection, 2)
    mask, length = take(connection, 4), head[1] & 127
    data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(take(connection, length)))
    return head[0] & 15, data

def take(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data

def web_socket(connection, headers):
    key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    connection.sendall((
        "HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        f"Sec-WebSocket-Accept: {{accept}}\\r\\n\\r\\n").encode())
    while True:
        kind, data = frame(connection)
        if kind == 8:
            return
        said = f"{{name}} {{data.decode()}}".encode()
        connection.sendall(bytes([129, len(said)]) + said)

def http(connection):
    global visits
    with connection:
        while True:
            text = b""
            while b"\\r\\n\\r\\n" not in text:
                more = connection.recv(65536)
                if not more:
                    return
                text += more
            lines = text.decode().split("\\r\\n")
            method, path, _ = lines[0].split(" ")
            headers = {{k.lower(): v.strip() for k, _, v in (l.partition(":") for l in lines[1:])}}
            if path == "/ws":
                return web_socket(connection, headers)
            if method == "POST" and path == "/reset":
                visits = 0
            elif path == "/":
                visits += 1
            body = json.dumps({{"pod": name, "version": version, "visits": visits}}).encode()
            head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
            connection.sendall(head + body)

def tcp(connection):
    with connection:
        for line in connection.makefile("rb"):
            connection.sendall(name.encode() + b" " + line)

def serve(port, handle):
    listener = socket.create_server(("", port), backlog=64)
    while True:
        threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()

for port, handle in (({HIDDEN}, http), ({TCP}, tcp)):
    threading.Thread(target=serve, args=(port, handle), daemon=True).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("", {UDP}))

def udp():
    while True:
        data, sender = datagrams.recvfrom(2048)
        datagrams.sendto(name.encode() + b" " + data, sender)

threading.Thread(target=udp, daemon=True).start()
serve({HTTP}, http)
"""


def pod_spec(version: str = "", **more: Any) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": IMAGE,
        "command": ["python3", "-S", "-E", "-c", SERVER],
        "env": [{"name": "VERSION", "value": version}],
        "readinessProbe": {"tcpSocket": {"port": HTTP}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
    }
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        **more,
    }


def pods(name: str = "server", seats: int = 1, **more: Any) -> dict[str, Any]:
    """A pod template; `pod` is its pod spec."""
    return {
        "name": name,
        "maxClients": seats,
        "ports": more.pop("ports", [{"name": "http", "port": HTTP}]),
        "template": {"spec": more.pop("pod", None) or pod_spec()},
        **more,
    }


def template(name: str, *pod_templates: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": "SessionTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"podTemplates": list(pod_templates) or [pods()], **spec},
    }


def session(name: str, template_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": "Session",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"templateRef": {"name": template_name}},
    }


def key(name: str) -> Key:
    return Key(NAMESPACE, name)


def seconds(stamp: str | None) -> float:
    assert stamp is not None
    return datetime.fromisoformat(stamp).timestamp()
