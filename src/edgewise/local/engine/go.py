"""A Go that is new enough: the one on PATH, else a private one from the package index."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.local.engine.cache import alone
from edgewise.local.engine.package_installer import installers, run_installer
from edgewise.local.engine.pins import EngineError, Pins, numbers
from edgewise.local.engine.progress import Progress


@dataclass(frozen=True)
class Go:
    program: Path
    version: str
    # A private Go keeps its modules and objects to itself, to be removed afterwards:
    # they are several gigabytes.
    environment: dict[str, str] = field(default_factory=dict)
    scratch: Path | None = None


def find_go(pins: Pins, cache: Path, progress: Progress) -> Go:
    needed = ".".join(map(str, pins.go))
    path = shutil.which("go")
    found = go_version(Path(path)) if path else ""
    if path and numbers(found) >= pins.go:
        return Go(Path(path), found)
    why = f"{path} is Go {found or 'of an unknown version'}" if path else "Go is not installed"
    private = cache / "go"
    program = private / "go" / "bin" / "go"
    subject = "Go"
    with alone(cache / "go.lock", subject, progress):
        if numbers(go_version(program)) < pins.go:
            progress(subject, f"{why}; fetching a private one (needs {needed} or newer)")
            install(pins.source / "go.lock", private, f"{why}, and {needed} or newer is needed")
        version = go_version(program)
        if numbers(version) < pins.go:
            raise EngineError(
                f"{why}, and the private Go in {private} does not run: "
                f"install Go {needed} or newer and try again"
            )
        progress(subject, f"ready: {version}")
    scratch = cache / "go-scratch"
    return Go(
        program,
        version,
        {"GOMODCACHE": str(scratch / "modules"), "GOCACHE": str(scratch / "objects")},
        scratch,
    )


def go_version(program: Path) -> str:
    try:
        done = subprocess.run(
            [program, "version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            # Otherwise a newer toolchain could be fetched just to say its version.
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"go version go(\S+)", done.stdout)
    return found[1] if found else ""


def install(lock: Path, target: Path, why: str) -> None:
    """Put the pinned, hash-checked Go package into `target`."""
    if target.exists():
        shutil.rmtree(target)
    arguments = ["--target", str(target), "--no-deps", "--require-hashes", "-r", str(lock)]
    said = ""
    for installer in installers():
        done = run_installer([*installer, "install", "-q", *arguments], timeout=600)
        if done.returncode == 0:
            mark_executable(target / "go")
            return
        said = (done.stderr.strip().splitlines() or ["it did not say why"])[-1]
    reason = f"could not be fetched ({said})" if said else "cannot be fetched without uv or pip"
    raise EngineError(f"{why}; a private one {reason}: install Go yourself and try again")


def mark_executable(tree: Path) -> None:
    """Installers may drop the executable bit of files that a wheel carries as data."""
    for folder in (tree / "bin", tree / "pkg" / "tool"):
        for file in folder.rglob("*"):
            if file.is_file():
                file.chmod(file.stat().st_mode | 0o111)
