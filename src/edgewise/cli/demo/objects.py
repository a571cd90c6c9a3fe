"""What the demo puts into its hub: a template whose pods say their own name, again and again."""

from typing import Any

NAMESPACE = "demo"
SESSION = "room-1"
TEMPLATE = "hello"
POD_TEMPLATE = "server"
PORT = 8000

SERVER = """
import http.server, socket, time

NAME = socket.gethostname().encode()

class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if not self.path.endswith("/stream"):
            self.wfile.write(NAME)
            return
        while True:
            self.wfile.write(NAME + b"\\n")
            time.sleep(0.05)

    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):  # somebody who listened went away
        pass

Server(("", 8000), Hello).serve_forever()
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
        "metadata": {"name": TEMPLATE, "namespace": NAMESPACE},
        "spec": {
            "podTemplates": [
                {
                    "name": POD_TEMPLATE,
                    "maxClients": 1,
                    "ports": [{"name": "http", "port": PORT}],
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
