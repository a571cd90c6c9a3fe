"""The images that local clusters use, and images that people build for them."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from edgewise.local.engine.progress import Progress, silent
from edgewise.local.images import edgewise as image_edgewise
from edgewise.local.images import store as image_store
from edgewise.local.images.debian import PYTHON, mirrors, root_file_system, suite
from edgewise.local.images.layer import Blob, Layer, opened
from edgewise.local.images.oci import ImageError, Settings, check_name, read_archive
from edgewise.local.images.python import (
    base_layer,
    compile_tree,
    packages_layer,
    python_version,
    site_packages,
)
from edgewise.local.images.store import Image, images, key_of, key_of_files

__all__ = [
    "EDGEWISE_IMAGE",
    "PAUSE_IMAGE",
    "PYTHON_IMAGE",
    "SIDECAR_IMAGE",
    "App",
    "Image",
    "ImageError",
    "build_app",
    "edgewise_image",
    "images",
    "node_images",
    "pause_image",
    "python_image",
    "read_archive",
    "sidecar_image",
]

PAUSE_IMAGE = "edgewise.local/pause:1"
PYTHON_IMAGE = "edgewise.local/python:1"
EDGEWISE_IMAGE = "edgewise.local/edgewise:dev"
SIDECAR_IMAGE = "edgewise.local/sidecar:dev"

# Part of every key: count up when the way of building changes.
RECIPE = 1
PYTHON_SETTINGS = {"PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}


def node_images(init: Path, progress: Progress = silent) -> list[Image]:
    """What every real node holds from its first moment."""
    return [pause_image(init, progress), python_image(progress)]


def pause_image(init: Path, progress: Progress = silent) -> Image:
    """What holds a pod's namespaces: the engine's own `init`."""

    def make(_: Path) -> Layer:
        layer = Layer()
        layer.file("pause", init, 0o755)
        return layer

    only = image_store.layer("pause", key_of(RECIPE, key_of_files([init])), make, progress)
    return image_store.image(PAUSE_IMAGE, Settings(entrypoint=("/pause",), user="65535"), [only])


def python_image(progress: Progress = silent, *, again: bool = False) -> Image:
    """A small Debian with Python, a shell and the usual tools."""
    settings = Settings(command=("python3",), environment=PYTHON_SETTINGS)
    return image_store.image(PYTHON_IMAGE, settings, [base("python", (), progress, again=again)])


def base(label: str, packages: Sequence[str], progress: Progress, *, again: bool = False) -> Blob:
    """The layer of Debian packages; `packages` come on top of Python's own."""
    wanted = sorted({*PYTHON, *packages})
    key = key_of(RECIPE, suite(), mirrors(), wanted)

    def make(scratch: Path) -> Layer:
        root = scratch / "root"
        root_file_system(wanted, root)
        return base_layer(root)

    return image_store.layer(label, key, make, progress, again=again)


def unpacked(layer: Blob, scratch: Path) -> Path:
    """The base as a folder, whose Python compiles what goes on top of it."""
    root = scratch / "root"
    with opened(layer.path) as archive:
        archive.extractall(root)
    return root


def edgewise_image(progress: Progress = silent) -> Image:
    """Edgewise with all its agents, as it is in this checkout or installation."""
    bottom = base("edgewise-debian", image_edgewise.DEBIAN, progress)
    requirements, hashed = image_edgewise.pinned(
        image_edgewise.needed(), image_edgewise.lock_text()
    )

    def make_packages(scratch: Path) -> Layer:
        file = scratch / "requirements.txt"
        file.write_text(requirements)
        return packages_layer(file, unpacked(bottom, scratch), scratch, hashed=hashed)

    packages = image_store.layer(
        "edgewise-packages", key_of(RECIPE, bottom.digest, requirements), make_packages, progress
    )
    code = code_of(bottom, "edgewise-code", image_edgewise.sources(), progress)
    settings = Settings(
        entrypoint=("edgewise",),
        environment=PYTHON_SETTINGS,
        user="65534",
        labels=image_edgewise.labels(),
    )
    return image_store.image(EDGEWISE_IMAGE, settings, [bottom, packages, code])


def sidecar_image(progress: Progress = silent) -> Image:
    """The sidecar of game servers alone: it needs Python and nothing else."""
    bottom = base("python", (), progress)
    code = code_of(bottom, "sidecar-code", image_edgewise.sidecar_sources(), progress)
    settings = Settings(environment=PYTHON_SETTINGS, user="65534")
    return image_store.image(SIDECAR_IMAGE, settings, [bottom, code])


def code_of(bottom: Blob, label: str, sources: Sequence[Path], progress: Progress) -> Blob:
    """Edgewise's own code, or a part of it, where Python finds it."""

    def make(scratch: Path) -> Layer:
        root = unpacked(bottom, scratch)
        at = f"{site_packages(python_version(root))}/edgewise"
        copy = scratch / "code"
        for source in sources:
            to = copy / source.relative_to(image_edgewise.PACKAGE)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to)
        compile_tree(root, copy, f"/{at}")
        return image_edgewise.code_layer(copy, at)

    names = [source.relative_to(image_edgewise.PACKAGE) for source in sources]
    key = key_of(RECIPE, bottom.digest, names, key_of_files(sources))
    return image_store.layer(label, key, make, progress)


@dataclass(frozen=True)
class App:
    """An image that somebody describes: files, Python packages and Debian packages."""

    name: str
    add: Sequence[tuple[Path, str]] = ()  # file or folder here, path in the image
    requirements: Path | None = None
    debian: Sequence[str] = ()
    settings: Settings = field(default_factory=Settings)


def build_app(app: App, progress: Progress = silent) -> Image:
    check_name(app.name)
    if app.name in (PAUSE_IMAGE, PYTHON_IMAGE, EDGEWISE_IMAGE, SIDECAR_IMAGE):
        raise ImageError(f"{app.name} is made by edgewise itself: choose another name")
    label = image_store.label_of(app.name)
    bottom = (
        base(f"{label}-debian", app.debian, progress)
        if app.debian
        else base("python", (), progress)
    )
    layers = [bottom]
    if app.requirements:
        layers.append(requirements_layer(f"{label}-packages", app.requirements, bottom, progress))
    if app.add:
        layers.append(files_layer(f"{label}-files", app.add, progress))
    settings = Settings(
        entrypoint=app.settings.entrypoint,
        command=app.settings.command,
        environment={**PYTHON_SETTINGS, **app.settings.environment},
        user=app.settings.user,
        folder=app.settings.folder,
    )
    return image_store.image(app.name, settings, layers)


def requirements_layer(label: str, file: Path, bottom: Blob, progress: Progress) -> Blob:
    if not file.is_file():
        raise ImageError(f"{file} does not exist: name a requirements file")
    text = file.read_text()

    def make(scratch: Path) -> Layer:
        # Not a copy: requirements may name other files beside their own.
        return packages_layer(file, unpacked(bottom, scratch), scratch, hashed="--hash=" in text)

    return image_store.layer(label, key_of(RECIPE, bottom.digest, text), make, progress)


def files_layer(label: str, add: Sequence[tuple[Path, str]], progress: Progress) -> Blob:
    content = Layer()
    for source, at in add:
        if not source.exists():
            raise ImageError(f"{source} does not exist: name a file or folder to add")
        try:
            if source.is_dir():
                content.tree(source, at, keep=lambda path: "__pycache__" not in path.split("/"))
            else:
                inside = f"{at}{source.name}" if at.endswith("/") else at
                content.file(inside, source, 0o755 if source.stat().st_mode & 0o111 else 0o644)
        except ValueError as error:
            raise ImageError(f"{error}: give an absolute path such as /app") from error
    files = [entry.content for entry in content.entries.values() if isinstance(entry.content, Path)]
    shape = [(path, e.mode, e.target) for path, e in sorted(content.entries.items())]
    key = key_of(RECIPE, shape, key_of_files(files))
    return image_store.layer(label, key, partial(_given, content), progress)


def _given(layer: Layer, _: Path) -> Layer:
    return layer
