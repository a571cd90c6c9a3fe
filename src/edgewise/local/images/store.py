"""Layers and images that were made before, kept outside the repository by what they are made of."""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.local.engine.cache import alone, cache_root
from edgewise.local.engine.pins import machine
from edgewise.local.engine.progress import Progress
from edgewise.local.images.layer import Blob, Layer
from edgewise.local.images.oci import (
    ImageError,
    Settings,
    check_name,
    config,
    encode,
    read_archive,
    write_archive,
)
from edgewise.local.scratch import unfinished


@dataclass(frozen=True)
class Image:
    name: str
    archive: Path  # an OCI layout in a tar file
    digest: str

    @property
    def size(self) -> int:
        return self.archive.stat().st_size


def store_root() -> Path:
    return cache_root() / "images"


def label_of(name: str) -> str:
    """An image's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", name)


def key_of(*parts: object) -> str:
    """A short name for everything that decides what comes out."""
    return hashlib.sha256(encode([machine(), *map(str, parts)])).hexdigest()[:16]


def key_of_files(files: Sequence[Path]) -> str:
    hashed = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()[:16]


def layer(
    label: str,
    key: str,
    make: Callable[[Path], Layer],
    progress: Progress,
    *,
    again: bool = False,
) -> Blob:
    """The layer of that key; `make` is called in an empty folder if there is none yet.

    Only the newest layer of a label is kept.
    """
    folder = store_root() / "layers"
    path = folder / f"{label}-{key}.tar"
    with alone(store_root() / f"{label}.lock", label, progress):
        known = None if again else read_blob(path)
        if known:
            return known
        progress(label, "building")
        check_room(folder)
        with tempfile.TemporaryDirectory(prefix=f".{label}-", dir=folder) as scratch:
            made = make(Path(scratch)).write(Path(scratch, "layer.tar"))
            forget_others(folder, label, path)
            made.path.replace(path)
            facts = Path(scratch, "facts.json")
            facts.write_text(json.dumps({"digest": made.digest, "size": made.size}))
            facts.replace(path.with_suffix(".json"))
        progress(label, f"built, {made.size / 1e6:.0f} MB")
    return Blob(path, made.digest, made.size)


def read_blob(path: Path) -> Blob | None:
    try:
        facts = json.loads(path.with_suffix(".json").read_text())
        if path.stat().st_size == facts["size"]:
            return Blob(path, facts["digest"], facts["size"])
    except (OSError, ValueError, KeyError):
        pass
    return None


def image(name: str, settings: Settings, layers: Sequence[Blob]) -> Image:
    """The image of these layers; written if it is not there yet, replacing older ones."""
    check_name(name)
    arch = machine()
    key = hashlib.sha256(encode(config(settings, layers, arch))).hexdigest()[:16]
    folder = store_root() / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    label = label_of(name)
    path = folder / f"{label}-{key}.tar"
    if not path.exists():
        check_room(folder)
        fresh = unfinished(path)
        try:
            write_archive(fresh, name, settings, layers, arch)
            forget_others(folder, label, path)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    return Image(name, path, read_archive(path).digest)


def images() -> list[Image]:
    """Every image that was made here."""
    found = []
    folder = store_root() / "archives"
    for path in sorted(folder.glob("[!.]*.tar")) if folder.is_dir() else ():
        summary = read_archive(path)
        found += [Image(name, path, summary.digest) for name in summary.names]
    return found


def forget_others(folder: Path, label: str, keep: Path) -> None:
    for path in folder.iterdir():
        if re.fullmatch(rf"{re.escape(label)}-[0-9a-f]{{16}}\.(tar|json)", path.name) and (
            path.stem != keep.stem
        ):
            path.unlink(missing_ok=True)


def check_room(folder: Path, needed: int = 1_500_000_000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ImageError(
            f"images need about {needed / 1e9:.1f} GB of disk and {folder} has {free / 1e9:.1f} GB "
            "left: free some, or set XDG_CACHE_HOME to another disk"
        )
