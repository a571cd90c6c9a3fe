"""What is placed: the sample web server as a Deployment, and a Service in front of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgewise.api.placement import GROUP, NAME_LABEL, VERSION
from edgewise.errors import ReadableError

NAMESPACE = "edgewise-bench"
NAME = "web"
PORT = 8000
SERVICE_PORT = 80


def service_name(namespace: str) -> str:
    return f"{NAME}.{namespace}.svc.cluster.local"


SERVICE = service_name(NAMESPACE)


class NoWebSample(ReadableError):
    """The sample web server is not where it should be."""


def sample() -> str:
    """The sample's source: beside this file in an installed package, in a checkout where it is."""
    here = Path(__file__)
    for place in (here.with_name("sample"), here.parents[4] / "examples" / "placement-web"):
        if (place / "server.py").is_file():
            return (place / "server.py").read_text()
    raise NoWebSample("the sample web server is missing: install edgewise again")


def pod_spec(image: str, *, drain: int = 0) -> dict[str, Any]:
    """With `drain`, it waits by itself until its Service has forgotten it."""
    container: dict[str, Any] = {
        "name": "web",
        "image": image,
        "command": ["python3", "-S", "-E", "-c", sample()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "env": [
            {"name": "PORT", "value": str(PORT)},
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
            },
        ],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    if drain:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": drain}}}
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
    }


def deployment(image: str, *, namespace: str = NAMESPACE, drain: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {"labels": {"app": NAME, NAME_LABEL: NAME}},
                "spec": pod_spec(image, drain=drain),
            },
        },
    }


def service(*, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "selector": {"app": NAME},
            "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": PORT}],
        },
    }


def placement(*, namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "LatencyPlacement",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "target": {"kind": "Deployment", "name": NAME},
            "observation": "1s",
            "maxMovesPerHour": 0,
            **spec,
        },
    }
