"""How many writes an API server has carried out, by its own count."""

from __future__ import annotations

import re

from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError

MOST_BYTES = 64 * 1024 * 1024
WRITES = frozenset(("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"))
# What nodes and controllers write all the time, whether anybody comes or not.
HEARTBEATS = frozenset(("leases", "nodes"))
_LINE = re.compile(r"^apiserver_request_total\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def writes_in(metrics: str) -> int:
    found = 0.0
    for labels, value in _LINE.findall(metrics):
        said = dict(_LABEL.findall(labels))
        if said.get("verb") in WRITES and said.get("resource") not in HEARTBEATS:
            found += float(value)
    return int(found)


async def api_writes(client: Client) -> int | None:
    """Nothing where the caller may not read the API server's metrics."""
    try:
        text = await client.request("GET", "/metrics", timeout=30, largest=MOST_BYTES)
    except KubeError:
        return None
    return writes_in(text.decode(errors="replace"))
