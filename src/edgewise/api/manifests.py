"""CRDs and cluster objects as files: written, and checked against the types they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edgewise.api.crd import crd_of
from edgewise.kube.objects import Object

HEADER = "# Written by `edgewise crds generate` from the types in src/edgewise/api.\n"
OBJECTS_HEADER = "# Written by `edgewise crds generate` from the records of the domains.\n"


def render(kinds: Iterable[type[Object]]) -> dict[str, str]:
    """The text of each file, by its name."""
    return {f"{kind.KIND.group}_{kind.KIND.plural}.yaml": _text(kind) for kind in kinds}


def render_objects(objects: Mapping[str, Iterable[Object]]) -> dict[str, str]:
    """The cluster objects of each domain, by the name of its file; none where it has none."""
    texts = {
        f"{domain}.yaml": "---\n".join(_dumped(msgspec.to_builtins(each)) for each in found)
        for domain, found in objects.items()
    }
    return {name: OBJECTS_HEADER + text for name, text in texts.items() if text}


def _text(kind: type[Object]) -> str:
    manifest = msgspec.to_builtins(crd_of(kind))
    return HEADER + _dumped(manifest)


def _dumped(manifest: Any) -> str:
    return yaml.safe_dump(manifest, sort_keys=False, width=100, allow_unicode=True)


def differences(directory: Path, files: dict[str, str]) -> list[str]:
    """Names of files that are missing, that differ, or that no type stands behind."""
    present = {path.name: path.read_text() for path in directory.glob("*.yaml")}
    names = present.keys() | files.keys()
    return sorted(name for name in names if present.get(name) != files.get(name))


def write(directory: Path, files: dict[str, str]) -> list[str]:
    """Make the directory hold exactly these files; returns the names of what changed."""
    changed = differences(directory, files)
    directory.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in files:
            (directory / name).write_text(files[name])
        else:
            (directory / name).unlink()
    return changed
