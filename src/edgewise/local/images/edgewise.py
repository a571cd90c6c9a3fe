"""Edgewise itself as an image: the packages it needs, and its own code as it is here."""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import edgewise
from edgewise.local.images.layer import Layer
from edgewise.local.images.oci import ImageError

PACKAGE = Path(edgewise.__file__).parent
EXTRAS = ("gateway", "mqtt", "server")
# The broker that `edgewise reports --run-broker` runs; the Containerfile has it, too.
DEBIAN = ("mosquitto",)
# Starts the same function as the installed command.
COMMAND = b"#!/usr/bin/python3\nfrom edgewise.cli.main import main\nmain()\n"


def labels() -> dict[str, str]:
    """What the image is, for registries and scanners; the Containerfile says the same."""
    said = metadata.metadata("edgewise")
    about = {
        "title": said.get_all("Name"),
        "description": said.get_all("Summary"),
        "licenses": said.get_all("License-Expression"),
        "version": said.get_all("Version"),
        "url": [url.partition(", ")[2] for url in said.get_all("Project-URL") or ()],
    }
    return {f"org.opencontainers.image.{name}": text[0] for name, text in about.items() if text}


def needed(root: str = "edgewise", extras: Iterable[str] = EXTRAS) -> dict[str, str]:
    """Name and version of each package that `root` with `extras` needs, as installed here."""
    found: dict[str, str] = {}
    todo = [Requirement(f"{root}[{','.join(extras)}]")]
    seen = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        try:
            here = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise ImageError(
                f"the image needs the package {name}, which is not installed here: "
                f"install edgewise[{','.join(EXTRAS)}]"
            ) from None
        known = set(here.metadata.get_all("Provides-Extra") or ())
        if name == root and requirement.extras - known:
            missing = ", ".join(sorted(requirement.extras - known))
            raise ImageError(
                f"the installed edgewise does not know its extra {missing}: "
                "install it again (in a checkout with `make setup`)"
            )
        if name != root:
            found[name] = here.version
        for text in here.requires or []:
            inner = Requirement(text)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
            ):
                todo.append(inner)
    return dict(sorted(found.items()))


def pinned(versions: dict[str, str], lock: str) -> tuple[str, bool]:
    """Requirements for these versions, and whether each has its hashes from `lock`."""
    blocks: dict[str, list[str]] = {}
    for block in split_lock(lock):
        head = Requirement(block.partition("\\")[0].strip())
        version = str(head.specifier).removeprefix("==")
        blocks.setdefault(f"{canonicalize_name(head.name)}=={version}", []).append(block)
    pins = [f"{name}=={version}" for name, version in versions.items()]
    if all(pin in blocks for pin in pins):
        return "".join(block for pin in pins for block in blocks[pin]), True
    return "".join(f"{pin}\n" for pin in pins), False


def split_lock(lock: str) -> list[str]:
    blocks: list[str] = []
    for line in lock.splitlines(keepends=True):
        if line[:1].isalnum():
            blocks.append(line)
        elif blocks:
            blocks[-1] += line
    return blocks


def lock_text() -> str:
    """The lock of this checkout; empty where edgewise is installed without one."""
    file = PACKAGE.parents[2] / "requirements.lock"
    return file.read_text() if file.is_file() else ""


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*") if path.is_file() and carried(path))


def sidecar_sources() -> list[Path]:
    """What the sidecar of game servers imports."""
    inside = (PACKAGE / "agents" / "sidecar").rglob("*.py")
    return sorted((PACKAGE / "__init__.py", PACKAGE / "agents" / "__init__.py", *inside))


def carried(path: Path) -> bool:
    return "__pycache__" not in path.parts and "engine_modules" not in path.parts


def code_layer(copy: Path, at: str) -> Layer:
    """The code in `copy`, byte-compiled already."""
    layer = Layer()
    layer.tree(copy, at)
    layer.file("usr/local/bin/edgewise", COMMAND, 0o755)
    return layer
