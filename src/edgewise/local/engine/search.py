"""Programs that are already on this machine, taken only if their version fits."""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgewise.local.engine.pins import Pins
from edgewise.local.scratch import unfinished

# How each program says its version. `init` says none: it is only taken from a
# directory that is known to hold the engine.
ASK = {"kubectl": ("version", "--client"), "coredns": ("-version",)}
SILENT = ("init",)


@dataclass(frozen=True)
class Found:
    path: Path
    version: str


@dataclass(frozen=True)
class Refused:
    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def look_in(
    directory: Path, program: str, pins: Pins, version_of: Callable[[Path], str]
) -> Found | Refused | None:
    """The program in `directory`, if it is there and fits."""
    path = directory / program
    if not path.is_file():
        return None
    if not os.access(path, os.X_OK):
        return Refused(path, "is not executable")
    if program in SILENT:
        return Found(path, "")
    version = version_of(path)
    if not version:
        return Refused(path, "does not say its version")
    if version != pins.version(program) and not version.startswith(pins.series(program) + "."):
        return Refused(path, f"is version {version}, but {pins.series(program)}.x is needed")
    return Found(path, version)


def look_on_path(
    program: str, pins: Pins, version_of: Callable[[Path], str]
) -> Found | Refused | None:
    if program in SILENT:  # every system has an `init` that is not ours
        return None
    path = shutil.which(program)
    return look_in(Path(path).parent, program, pins, version_of) if path else None


def ask_version(path: Path) -> str:
    """What the program says when asked for its version; empty when nothing useful."""
    arguments = ASK.get(path.name, ("--version",))
    try:
        done = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bv?(\d+\.\d+\.\d+)\b", done.stdout + done.stderr)
    return found[1] if found else ""


class VersionMemory:
    """Remembers what a file answered, until the file changes: asking takes up to a second."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            known = json.loads(file.read_text())
        except (OSError, ValueError):
            known = {}
        self.known: dict[str, str] = known if isinstance(known, dict) else {}

    def __call__(self, path: Path) -> str:
        state = path.stat()
        key = f"{path} {state.st_size} {state.st_mtime_ns}"
        version = self.known.get(key)
        if version is None:
            version = self.known[key] = ask_version(path)
            with contextlib.suppress(OSError):  # a memory that cannot be kept is only slower
                self.file.parent.mkdir(parents=True, exist_ok=True)
                fresh = unfinished(self.file)
                fresh.write_text(json.dumps(self.known))
                fresh.replace(self.file)
        return version
