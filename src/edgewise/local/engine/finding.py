"""The engine: the programs that make up a Kubernetes cluster, found or made.

They are looked for, one by one, in this order: a directory that the user names,
$KUBEBUILDER_ASSETS, PATH (each only if its version fits), the cache, the
projects' own releases, and last a build from pinned Go modules.
"""

import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgewise.local.engine import build as engine_build
from edgewise.local.engine import download as engine_download
from edgewise.local.engine.cache import alone, cache_root
from edgewise.local.engine.go import find_go
from edgewise.local.engine.pins import (
    BINARIES,
    PROGRAMS,
    EngineError,
    Pins,
    binary_of,
    machine,
    read_pins,
)
from edgewise.local.engine.progress import Progress, silent
from edgewise.local.engine.releases import Release, releases
from edgewise.local.engine.search import Found, Refused, VersionMemory, look_in, look_on_path

__all__ = [
    "PROGRAMS",
    "Engine",
    "EngineError",
    "NamedDirectoryError",
    "Program",
    "Progress",
    "find_engine",
]


class NamedDirectoryError(EngineError):
    """The directory that somebody chose for the engine does not do."""


@dataclass(frozen=True)
class Program:
    name: str
    path: Path
    version: str
    source: str  # where it came from, in words


@dataclass(frozen=True)
class Engine:
    programs: Mapping[str, Program]
    refused: tuple[str, ...] = ()  # what was there but did not fit, and why

    def path(self, name: str) -> Path:
        return self[name].path

    def __getitem__(self, name: str) -> Program:
        try:
            return self.programs[name]
        except KeyError:
            raise EngineError(
                f"the engine was asked for {', '.join(self.programs)}, but not for {name}"
            ) from None


def find_engine(
    progress: Progress = silent,
    *,
    directory: str | Path | None = None,
    programs: Collection[str] = PROGRAMS,
    download: bool = True,
    build: bool = True,
) -> Engine:
    """All of `programs`, ready to start. May take minutes the first time, and then almost none."""
    pins = read_pins()
    for name in programs:
        binary_of(name)  # refuses unknown names
    found, refused = look_around(programs, pins, named_directory(directory))
    missing = [name for name in programs if name not in found]
    if missing:
        made = make(missing, pins, progress, download=download, build=build)
        for name in missing:
            found[name] = Program(name, made / name, pins.version(name), "cache")
    return Engine({name: found[name] for name in programs}, tuple(refused))


def named_directory(directory: str | Path | None) -> Path | None:
    named = directory or os.environ.get("EDGEWISE_ENGINE_DIR")
    if not named:
        return None
    path = Path(named).expanduser().absolute()
    if not path.is_dir():
        raise NamedDirectoryError(f"the engine directory {path} does not exist: name one that does")
    return path


@dataclass(frozen=True)
class Folder:
    """Somewhere that programs may already be."""

    name: str
    look: Callable[[str], Found | Refused | None]
    binding: bool = False  # named on purpose, so that going elsewhere would surprise


def places(pins: Pins, named: Path | None) -> Iterator[Folder]:
    version_of = VersionMemory(cache_root() / "engine" / "versions.json")
    if named:
        look = partial(look_in, named, pins=pins, version_of=version_of)
        yield Folder(f"directory {named}", look, binding=True)
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        look = partial(look_in, Path(assets).absolute(), pins=pins, version_of=version_of)
        yield Folder("$KUBEBUILDER_ASSETS", look)
    yield Folder("PATH", partial(look_on_path, pins=pins, version_of=version_of))


def look_around(
    programs: Iterable[str], pins: Pins, named: Path | None
) -> tuple[dict[str, Program], list[str]]:
    """What is already here, and what was here but refused."""
    found: dict[str, Program] = {}
    refused: list[str] = []
    for place in places(pins, named):
        for name in programs:
            seen = place.look(name) if name not in found else None
            if isinstance(seen, Found):
                found[name] = Program(name, seen.path, seen.version, place.name)
            elif isinstance(seen, Refused):
                if place.binding:
                    raise NamedDirectoryError(
                        f"{seen}: put another there, or do not name that directory"
                    )
                refused.append(str(seen))
    return found, refused


def make(
    missing: list[str], pins: Pins, progress: Progress, *, download: bool, build: bool
) -> Path:
    """The cache folder, holding at least `missing`."""
    target = cache_root() / "engine" / pins.key
    if not absent(missing, target):
        return target
    with alone(target.with_suffix(".lock"), "engine", progress):
        todo = absent(missing, target)  # again: another process may have made them meanwhile
        started = time.monotonic()
        if todo and download:
            fetch(todo, pins, target, progress, insist=not build)
        todo = absent(missing, target)
        if todo and not build:
            raise EngineError(
                f"no release with a checksum is published for {', '.join(todo)}: "
                "allow building them"
            )
        if todo:
            compile_all(todo, pins, target, progress)
        progress("engine", f"complete after {time.monotonic() - started:.0f} s in {target}")
    return target


def absent(programs: Iterable[str], target: Path) -> list[str]:
    return [name for name in programs if not (target / name).is_file()]


def fetch(todo: list[str], pins: Pins, target: Path, progress: Progress, *, insist: bool) -> None:
    published = releases(pins.versions, machine())
    wanted = [published[name] for name in todo if name in published]
    if not wanted or platform.system() != "Linux":
        return
    if not engine_download.reachable(wanted[0]):
        if insist:
            raise EngineError("the projects' releases cannot be reached: go online and try again")
        progress("engine", "the projects' releases cannot be reached; building instead")
        return
    for release in wanted:
        try:
            engine_download.download(release, subject_of(release, pins), target, progress)
        except engine_download.DownloadError as error:
            if insist:
                raise
            progress("engine", f"{error}; building instead")
            return


def subject_of(release: Release, pins: Pins) -> str:
    return f"{release.program} {pins.version(release.program)}"


def compile_all(todo: list[str], pins: Pins, target: Path, progress: Progress) -> None:
    go = find_go(pins, cache_root(), progress)
    wanted = [binary for binary in BINARIES if set(binary.programs) & set(todo)]
    engine_build.build(wanted, pins, go, target, progress)
    engine_build.remove_scratch(go)
