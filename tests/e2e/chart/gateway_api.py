"""The Gateway API as the operator sees it: its real kinds, and somebody who accepts routes."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from edgewise.kube.client import Client
from edgewise.kube.kinds.gateway_api import GATEWAY_KINDS, ListenerSet
from edgewise.local.engine.cache import cache_root
from edgewise.local.engine.go import find_go
from edgewise.local.engine.pins import read_pins, source_directory
from edgewise.workloads.children import Child
from tests.e2e.sessions.workloads import NAMESPACE

MODULE = "sigs.k8s.io/gateway-api@v1.6.3"
CHECKSUM = "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc="


def definitions(folder: Path) -> list[dict[str, Any]]:
    """The CRDs of the standard channel that are used, from the module that carries them."""
    go = find_go(read_pins(source_directory()), cache_root(), lambda *_: None)
    done = subprocess.run(
        [go.program, "mod", "download", "-json", MODULE],
        cwd=folder,
        env={
            **os.environ,
            "GOMODCACHE": str(folder / "modules"),
            "GOFLAGS": "-mod=mod -modcacherw",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fetched = json.loads(done.stdout)
    assert fetched["Sum"] == CHECKSUM
    standard = Path(fetched["Dir"], "config", "crd", "standard")
    files = [f"{kind.KIND.group}_{kind.KIND.plural}.yaml" for kind in GATEWAY_KINDS]
    return [yaml.safe_load((standard / file).read_text()) for file in files]


async def accept(client: Client, kind: type[Child], each: Child) -> None:
    """What the controller of the Gateway would say."""
    accepted = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observedGeneration": each.metadata.generation,
    }
    status: dict[str, Any] = {"conditions": [accepted]}
    if kind is not ListenerSet:
        controller = "example.test/gateway-controller"
        status = {
            "parents": [
                {"parentRef": parent, "controllerName": controller, "conditions": [accepted]}
                for parent in each.spec["parentRefs"]
            ]
        }
    body = {"status": status}
    await client.patch(kind, each.metadata.name, NAMESPACE, body=body, subresource="status")
