"""CRDs as files: written, and checked against the types they come from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from edgewise.api.crd import crd_of
from edgewise.kube.objects import Object

HEADER = "# Written by `edgewise crds generate` from the types in src/edgewise/api.\n"


def render(kinds: Iterable[type[Object]]) -> dict[str, str]:
    """The text of each file, by its name."""
    return {f"{kind.KIND.group}_{kind.KIND.plural}.yaml": _text(kind) for kind in kinds}


def _text(kind: type[Object]) -> str:
    manifest = msgspec.to_builtins(crd_of(kind))
    return HEADER + yaml.safe_dump(manifest, sort_keys=False, width=100, allow_unicode=True)


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
