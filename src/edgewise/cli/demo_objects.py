"""What the demo puts into its cluster: a template whose pods answer with their own name."""

from typing import Any

NAMESPACE = "demo"
SESSION = "room-1"
POD_TEMPLATE = "server"
PORT_NAME = "http"
PORT = 8000

SERVER = """
import http.server, socket

class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = socket.gethostname().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("", 8000), Hello).serve_forever()
"""


def template(image: str) -> dict[str, Any]:
    """One pod for each client, kept for a while for those who lost their connection."""
    container = {
        "name": POD_TEMPLATE,
        "image": image,
        "command": ["python3", "-c", SERVER],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": "SessionTemplate",
        "metadata": {"name": "hello", "namespace": NAMESPACE},
        "spec": {
            "podTemplates": [
                {
                    "name": POD_TEMPLATE,
                    "maxClients": 1,
                    "ports": [{"name": PORT_NAME, "port": PORT}],
                    "template": {
                        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}
                    },
                }
            ],
            "timeoutSeconds": 60,
            "reutilizeTimeoutSeconds": 60,
            "reuse": "Session",
        },
    }


def session() -> dict[str, Any]:
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": "Session",
        "metadata": {"name": SESSION, "namespace": NAMESPACE},
        "spec": {"templateRef": {"name": "hello"}},
    }
