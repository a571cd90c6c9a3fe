"""What the join benchmark runs: the smallest real server that says who it is."""

from __future__ import annotations

from typing import Any

NAMESPACE = "edgewise-bench"
PORT = 8000

# Plain sockets: what is measured is Kubernetes and Edgewise, not the imports of a framework.
SERVER = """
import socket, threading

listener = socket.create_server(("", 8000), backlog=64)
body = socket.gethostname().encode()
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body)

def serve(connection):
    with connection:
        while connection.recv(65536):
            connection.sendall(answer)

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


# The same, and it ends when a client asks for it.
FRAGILE_SERVER = SERVER.replace("import socket", "import os, socket").replace(
    """        while connection.recv(65536):
""",
    """        while asked := connection.recv(65536):
            if b"/crash" in asked.split(b"\\r\\n", 1)[0]:
                os._exit(3)
""",
)


def pod_spec(image: str, server: str = SERVER) -> dict[str, Any]:
    """The same for bare pods and for those of sessions."""
    container = {
        "name": "server",
        "image": image,
        "command": ["python3", "-S", "-E", "-c", server],
        "ports": [{"containerPort": PORT}],
        # A client can connect when the server listens, not when its process exists.
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }


def template(name: str, image: str, **spec: Any) -> dict[str, Any]:
    """A SessionTemplate; `warm` and `seats` say how its one pod template is used."""
    pod_template = {
        "name": "server",
        "maxClients": spec.pop("seats", 1),
        "warmPods": spec.pop("warm", 0),
        "ports": [{"name": "http", "port": PORT}],
        "template": {"spec": spec.pop("pod", None) or pod_spec(image)},
    }
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": "SessionTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"podTemplates": [pod_template], **spec},
    }


def session(name: str, template_name: str, clients: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": "Session",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"templateRef": {"name": template_name}, "clients": clients or {}},
    }
