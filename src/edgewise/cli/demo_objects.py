"""What the demo puts into its cluster: pods that answer with their own name."""

from typing import Any

NAMESPACE = "demo"
NAME = "hello"
PORT = 8000
LABELS = {"app": NAME}

# One answer per connection, so that each request may reach another pod.
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


def objects(replicas: int, image: str) -> list[dict[str, Any]]:
    metadata = {"name": NAME, "namespace": NAMESPACE}
    container = {
        "name": NAME,
        "image": image,
        "command": ["python3", "-c", SERVER],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "type": "NodePort",
                "selector": LABELS,
                "ports": [{"port": 80, "targetPort": PORT}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": LABELS},
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
                },
            },
        },
    ]
