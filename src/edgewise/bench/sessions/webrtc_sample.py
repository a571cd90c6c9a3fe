"""The WebRTC sample as it is measured: its images, its template, and where it lies.

The sample is part of the repository and not of the package, and so are coturn's manifests.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import yaml

from edgewise.errors import ReadableError
from edgewise.local.images.building import App
from edgewise.local.images.oci import Settings

ROOT = Path(__file__).parents[4]
SAMPLE = ROOT / "examples" / "webrtc-detector"
TURN_MANIFESTS = ROOT / "deploy" / "turn"
TURN_NAMESPACE = "edgewise-turn"
TURN_NODE_PORT = 30478
POD_TEMPLATE = "detector"
SIGNAL_PORT_NAME = "signal"
SIGNAL_PORT = 8080
NEEDED = ("aiortc", "av", "cv2", "numpy")


class NoSample(ReadableError):
    """The sample cannot be run from here."""


def check_sample() -> None:
    for folder in (SAMPLE, TURN_MANIFESTS):
        if not folder.is_dir():
            raise NoSample(
                f"there is no {folder}: the WebRTC sample is not part of the installed package, so "
                "run this from a checkout of the repository"
            )
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NoSample(
            f"the sample's client needs {', '.join(missing)}: install the extra `webrtc`, with "
            "`make setup` or `pip install -e '.[webrtc]'`"
        )


def images() -> list[App]:
    return [
        App(
            name="edgewise.local/webrtc-detector:1",
            add=[(SAMPLE / "webrtc_detector", "/app/webrtc_detector")],
            requirements=SAMPLE / "requirements.txt",
            settings=Settings(
                command=["python3", "-m", "webrtc_detector.server"], user="65534", folder="/app"
            ),
        ),
        App(
            name="edgewise.local/coturn:1",
            debian=["coturn"],
            settings=Settings(command=["turnserver"], user="65534"),
        ),
    ]


def sample_template() -> dict[str, Any]:
    template: dict[str, Any] = yaml.safe_load((SAMPLE / "session-template.yaml").read_text())
    return template


def cold_template(template: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The sample without anything that is ready before a client comes, and small enough that
    many of its pods fit on one machine."""
    (pods,) = template["spec"]["podTemplates"]
    (container,) = pods["template"]["spec"]["containers"]
    small = {**container, "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}
    pod_spec = {
        **pods["template"]["spec"],
        "containers": [small],
        # Nobody waits for a pod to end, and the next measurement must not run beside it.
        "terminationGracePeriodSeconds": 0,
    }
    cold = {key: value for key, value in pods.items() if key != "reset"}
    cold |= {"warmPods": 0, "template": {**pods["template"], "spec": pod_spec}}
    return {
        **template,
        "metadata": {**template["metadata"], "namespace": namespace},
        "spec": {
            "podTemplates": [cold],
            "timeoutSeconds": 0,
            "reutilizeTimeoutSeconds": 0,
            "reuse": "Never",
        },
    }


def pod_spec(template: dict[str, Any]) -> dict[str, Any]:
    """What a pod of the template runs."""
    (pods,) = template["spec"]["podTemplates"]
    spec: dict[str, Any] = pods["template"]["spec"]
    return spec
