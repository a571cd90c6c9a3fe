"""A session that somebody wrote into a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edgewise.api.sessions import Session
from edgewise.cli.session.source import SessionError


class Written(msgspec.Struct):
    name: str
    namespace: str
    spec: dict[str, Any]


def session_file(file: Path) -> Written:
    """YAML or JSON; `-` is stdin."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise SessionError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    if len(documents) != 1:
        raise SessionError(f"{file} must hold one Session, but holds {len(documents)} objects")
    return read(file, documents[0])


def read(file: Path, document: Any) -> Written:
    if not isinstance(document, dict) or document.get("kind") != Session.KIND.kind:
        kind = document.get("kind") if isinstance(document, dict) else type(document).__name__
        raise SessionError(f"{file} must hold a Session, but holds a {kind}")
    version = document.get("apiVersion")
    if version != Session.KIND.api_version:
        raise SessionError(
            f"apiVersion in {file} must be {Session.KIND.api_version}, but is {version}"
        )
    metadata, spec = document.get("metadata") or {}, document.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise SessionError(f"{file} must have a metadata and a spec")
    return Written(str(metadata.get("name") or ""), str(metadata.get("namespace") or ""), spec)
