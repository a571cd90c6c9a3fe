"""Pods for tests, made of the Python image that every node has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta
from edgewise.testing.eventually import eventually

IMAGE = "edgewise.local/python:1"
PORT = 8080
# Answers every request with its own name and the address that it sees.
WEB = f"""
import http.server, socket

class Who(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{{socket.gethostname()}} {{self.client_address[0]}}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

print("serving", flush=True)
http.server.ThreadingHTTPServer(("", {PORT}), Who).serve_forever()
"""


def web_container(image: str = IMAGE) -> dict[str, Any]:
    return {
        "name": "web",
        "image": image,
        "command": ["python3", "-c", WEB],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
    }


def web_spec(**more: Any) -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": 1, "containers": [web_container()], **more}


async def ready_pod(client: Client, name: str, spec: dict[str, Any] | None = None) -> Pod:
    """A pod that serves, in the namespace default."""
    meta = ObjectMeta(name=name, namespace="default", labels={"app": name})
    await client.create(Pod(metadata=meta, spec=spec or web_spec()))
    return await until_ready(client, name)


async def until_ready(client: Client, name: str, *, within: float = 60.0) -> Pod:
    async def is_ready() -> None:
        pod = await client.get(Pod, name, "default")
        conditions = {c.type: c.status for c in pod.status.conditions}
        assert conditions.get("Ready") == "True", pod.status

    await eventually(is_ready, within=within, every=0.1)
    return await client.get(Pod, name, "default")


async def delete_pods(client: Client, names: Sequence[str]) -> None:
    for name in names:
        try:
            await client.delete(Pod, name, "default", grace_seconds=0)
        except NotFound:
            continue


async def fetch(address: str, port: int = PORT, *, seconds: float = 5.0) -> str:
    """The answer of a web pod, asked from the host."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(address, port)
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
    return answer.decode().rpartition("\r\n\r\n")[2]


async def run_python(client: Client, pod: str, code: str) -> str:
    """What a piece of Python prints that is run inside a pod."""
    result = await client.exec(pod, "default", ["python3", "-c", code])
    assert result.exit_code == 0, result.stderr.decode()
    return result.stdout.decode().strip()


async def reaches(client: Client, pod: str, address: str, port: int = PORT) -> bool:
    """Whether a pod can open a connection to an address."""
    code = (
        "import socket\n"
        "try:\n"
        f"    socket.create_connection(({address!r}, {port}), 2).close()\n"
        "    print('yes')\n"
        "except OSError as error:\n"
        "    print('no', error)\n"
    )
    return (await run_python(client, pod, code)).startswith("yes")
