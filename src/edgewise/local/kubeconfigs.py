"""Kubeconfig files of local clusters, and their contexts in the user's own file."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml

from edgewise.local.errors import LocalError
from edgewise.local.identities import ADMIN, CLUSTER_CA
from edgewise.local.layout import Home, certificate, key, write_atomically

_PARTS = ("clusters", "users", "contexts")


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


def user_kubeconfig() -> Path:
    """The file that kubectl reads: the first of $KUBECONFIG, or the usual one."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def merge(home: Home, server: str, into: Path) -> None:
    """Add the cluster's context to a file, and make it the current one."""
    content = _read(into)
    fresh = kubeconfig(home, server, ADMIN)
    for part in _PARTS:
        others = [
            entry for entry in content.get(part) or [] if _name(entry) != context_name(home.name)
        ]
        content[part] = [*others, *fresh[part]]
    content["current-context"] = fresh["current-context"]
    into.parent.mkdir(parents=True, exist_ok=True)
    _write(into, {"apiVersion": "v1", "kind": "Config"} | content)


def unmerge(home: Home, path: Path) -> None:
    """Remove the cluster's context, if the file still has it for this very cluster."""
    if not path.is_file() or not home.kubeconfig.is_file():
        return
    name = context_name(home.name)
    mine = _read(home.kubeconfig)["clusters"][0]["cluster"]
    content = _read(path)
    theirs = [e.get("cluster") for e in content.get("clusters") or [] if _name(e) == name]
    if theirs != [mine]:
        return
    for part in _PARTS:
        content[part] = [entry for entry in content.get(part) or [] if _name(entry) != name]
    if content.get("current-context") == name:
        content["current-context"] = ""
    _write(path, content)


def _name(entry: Any) -> Any:
    return entry.get("name") if isinstance(entry, dict) else None


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as error:
        raise LocalError(f"{path} is not a kubeconfig ({error}); mend or move it") from error
    if not isinstance(content, dict):
        raise LocalError(f"{path} is not a kubeconfig; mend or move it")
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    # Through a link, as some people keep theirs elsewhere.
    write_atomically(path.resolve(), yaml.safe_dump(content, sort_keys=False).encode())
