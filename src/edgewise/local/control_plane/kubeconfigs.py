"""Kubeconfig files of local clusters, and their contexts in the user's own file."""

from __future__ import annotations

import contextlib
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edgewise.local.control_plane.identities import ADMIN, CLUSTER_CA
from edgewise.local.errors import LocalError
from edgewise.local.layout import Home, certificate, homes, key, write_atomically

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


class Merged(msgspec.Struct, frozen=True):
    """A file that has the cluster's context, and what it takes to undo that."""

    file: str
    # The current context before, and before that one if it was a local cluster's too.
    before: list[str]
    # Whether the file is there only because clusters were merged into it.
    made: bool


def merge(home: Home, server: str, into: Path) -> None:
    """Add the cluster's context to a file, and make it the current one."""
    content = _read(into)
    _note(home, into, content)
    name, fresh = context_name(home.name), kubeconfig(home, server, ADMIN)
    for part in _PARTS:
        others = [entry for entry in _entries(content, part) if entry["name"] != name]
        content[part] = [*others, *fresh[part]]
    content["current-context"] = fresh["current-context"]
    into.parent.mkdir(parents=True, exist_ok=True)
    _write(into, {"apiVersion": "v1", "kind": "Config"} | content)


def _note(home: Home, into: Path, content: dict[str, Any]) -> None:
    """Written before the file is, so that a merge that is killed can be undone as well."""
    file = str(into.absolute())
    notes = {note.file: note for note in merged(home)}
    current = content.get("current-context") or ""
    known = notes.get(file)
    before = known.before if known and current == context_name(home.name) else [current]
    made = known.made if known and into.exists() else not into.exists()
    for other in homes(home.path.parent.parent):
        for note in merged(other) if other.name != home.name else ():
            if note.file == file:
                made = made or note.made
                before = [*before, *(note.before if context_name(other.name) in before else ())]
    notes[file] = Merged(file, before, made)
    write_atomically(home.merged, msgspec.json.encode(list(notes.values())))


def merged(home: Home) -> list[Merged]:
    """Where the cluster was merged into."""
    try:
        return msgspec.json.decode(home.merged.read_bytes(), type=list[Merged])
    except (OSError, msgspec.MsgspecError, ValueError):
        return []


def unmerge_everywhere(home: Home) -> None:
    """Out of every file that can be read; one that cannot is its owner's business."""
    notes = {note.file: note for note in merged(home)}
    usual = str(user_kubeconfig().absolute())
    notes.setdefault(usual, Merged(usual, [], made=False))
    for note in notes.values():
        with contextlib.suppress(LocalError, OSError):
            unmerge(home, note)


def unmerge(home: Home, note: Merged) -> None:
    """Remove the cluster's context, if the file still has it for this very cluster."""
    path = Path(note.file)
    if not path.is_file() or not home.kubeconfig.is_file():
        return
    name = context_name(home.name)
    mine = [entry["cluster"] for entry in _entries(_read(home.kubeconfig), "clusters")]
    content = _read(path)
    theirs = [e.get("cluster") for e in _entries(content, "clusters") if e["name"] == name]
    if theirs != mine:
        return
    for part in _PARTS:
        content[part] = [entry for entry in _entries(content, part) if entry["name"] != name]
    if content.get("current-context") == name:
        left = {entry["name"] for entry in content["contexts"]}
        content["current-context"] = next((each for each in note.before if each in left), "")
    if note.made and not _holds_anything(content):
        path.resolve().unlink()
    else:
        _write(path, content)


def _holds_anything(content: dict[str, Any]) -> bool:
    return any(value for key, value in content.items() if key not in ("apiVersion", "kind"))


def _entries(content: dict[str, Any], part: str) -> list[dict[str, Any]]:
    return content.get(part) or []


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, ValueError) as error:
        raise LocalError(f"{path} is not a kubeconfig ({error}); mend or move it") from error
    if content is None:
        return {}  # an empty file
    trouble = _trouble(content)
    if trouble:
        raise LocalError(f"{path} is not a kubeconfig ({trouble}); mend or move it")
    found: dict[str, Any] = content
    return found


def _trouble(content: Any) -> str:
    """What keeps it from being a kubeconfig; empty when nothing does."""
    if not isinstance(content, dict):
        return "it is no mapping"
    for part in _PARTS:
        entries = content.get(part) or []
        if not isinstance(entries, list):
            return f"its {part} are no list"
        if not all(isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries):
            return f"one of its {part} has no name"
    if not isinstance(content.get("current-context") or "", str):
        return "its current-context is no name"
    return ""


def _write(path: Path, content: dict[str, Any]) -> None:
    # Through a link, as some people keep theirs elsewhere.
    write_atomically(path.resolve(), yaml.safe_dump(content, sort_keys=False).encode())
