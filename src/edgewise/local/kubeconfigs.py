"""Kubeconfig files of local clusters, and their contexts in the user's own file."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml

from edgewise.local.identities import CLUSTER_CA
from edgewise.local.layout import Home, certificate, key, write_atomically


def context_name(cluster: str) -> str:
    return f"edgewise-{cluster}"


def write_kubeconfig(home: Home, server: str, identity: str, path: Path) -> None:
    """A file that needs no other: the certificates are inside."""
    content = kubeconfig(home, server, identity)
    write_atomically(path, yaml.safe_dump(content, sort_keys=False).encode())


def kubeconfig(home: Home, server: str, identity: str) -> dict[str, Any]:
    context = context_name(home.name)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": context,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": _data(certificate(home.pki, CLUSTER_CA)),
                },
            }
        ],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": _data(certificate(home.pki, identity)),
                    "client-key-data": _data(key(home.pki, identity)),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def _data(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()
