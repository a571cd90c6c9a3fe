"""Building the engine's programs from their pinned modules."""

import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from edgewise.local.engine.cache import put_link
from edgewise.local.engine.go import Go
from edgewise.local.engine.pins import BUILD_FLAGS, Binary, EngineError, Pins
from edgewise.local.engine.progress import Progress

# Seen on a machine with two cores: modules, objects and temporary files together.
ROOM = {"kubernetes": 5_000_000_000, "kwok": 2_000_000_000, "coredns": 2_000_000_000}
LOG = "build.log"
BUILDING = ".building"
# A compiler lives for seconds and has memory enough: collecting its garbage is a waste of time.
COMPILER_GOGC = "400"


def build(binaries: Sequence[Binary], pins: Pins, go: Go, target: Path, progress: Progress) -> None:
    """Build `binaries` into `target`, which nobody else does meanwhile.

    What is there afterwards is complete.
    """
    subject = ", ".join(f"{each.name} {pins.versions[each.name]}".strip() for each in binaries)
    target.mkdir(parents=True, exist_ok=True)
    check_room(binaries, target)
    log = target / LOG
    fresh = target / BUILDING
    shutil.rmtree(fresh, ignore_errors=True)  # of a build that was killed
    fresh.mkdir()
    started = time.monotonic()
    progress(subject, f"building with Go {go.version}")
    try:
        run_go(build_command(binaries, pins, go, fresh), go, log, subject, progress)
        for binary in binaries:
            install(binary, fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    log.unlink(missing_ok=True)
    progress(subject, f"built in {time.monotonic() - started:.0f} s")


def install(binary: Binary, fresh: Path, target: Path) -> None:
    made = fresh / binary.name
    made.chmod(0o755)
    made.replace(target / binary.name)
    for program in binary.programs:
        if program != binary.name:
            put_link(binary.name, target / program)


def build_command(binaries: Sequence[Binary], pins: Pins, go: Go, output: Path) -> list[str]:
    return [
        str(go.program),
        "build",
        "-C",
        str(pins.source),
        "-v",  # names each package as it is compiled: the progress
        *BUILD_FLAGS,
        "-ldflags",
        " ".join(["-s", "-w", *stamp(pins.versions["kubernetes"])]),
        "-o",
        f"{output}/",
        *(binary.package for binary in binaries),
    ]


def stamp(version: str) -> tuple[str, ...]:
    """Linker flags that tell the Kubernetes programs their own version; others ignore them."""
    major, minor, _ = version.split(".", 2)
    where = "k8s.io/component-base/version"
    return (
        f"-X {where}.gitVersion=v{version}",
        f"-X {where}.gitMajor={major}",
        f"-X {where}.gitMinor={minor}",
    )


def run_go(command: list[str], go: Go, log: Path, subject: str, progress: Progress) -> None:
    environment = {
        **os.environ,
        **go.environment,
        "CGO_ENABLED": "0",
        "GOWORK": "off",  # the modules pin everything; a workspace around them must not matter
        "GOGC": COMPILER_GOGC,
    }
    last: deque[str] = deque(maxlen=20)
    compiled = fetched = 0
    with (
        log.open("w") as kept,
        subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        ) as running,
    ):
        try:
            for line in running.stderr or ():
                kept.write(line)
                last.append(line.strip())
                if line.startswith("go: downloading"):
                    fetched += 1
                    progress(subject, f"fetching modules ({fetched})")
                else:
                    compiled += 1
                    progress(subject, f"compiling packages ({compiled})")
            code = running.wait()
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)  # the compilers, too
            raise
    if code:
        raise EngineError(f"building {subject} failed: {explain(list(last))} (see {log})")


def explain(lines: list[str]) -> str:
    """The line of Go's output that tells most, with what to do where that is known."""
    text = "\n".join(lines).lower()
    if "no space left on device" in text:
        return "the disk is full; free about 6 GB and try again, it goes on where it stopped"
    if any(sign in text for sign in ("no such host", "dial tcp", "i/o timeout", "proxyconnect")):
        return "the Go module registry cannot be reached; set GOPROXY or go online and try again"
    if "checksum mismatch" in text or "security error" in text:
        return "a fetched module is not the pinned one; check GOPROXY for a broken mirror"
    if "signal: killed" in text:
        return "the compiler was killed, probably for want of memory; free about 3 GB of it"
    return next((line for line in reversed(lines) if line), "Go did not say why")


def check_room(binaries: Sequence[Binary], target: Path) -> None:
    needed = max(ROOM.get(binary.name, 500_000_000) for binary in binaries)
    free = shutil.disk_usage(target).free
    if free < needed:
        raise EngineError(
            f"building the engine needs about {needed / 1e9:.1f} GB of disk and {target} "
            f"has {free / 1e9:.1f} GB left: free some, or set XDG_CACHE_HOME to another disk"
        )


def remove_scratch(go: Go) -> None:
    """A private Go's modules and objects are of no use once everything is built."""
    if go.scratch is None or not go.scratch.exists():
        return
    for folder, _, _ in os.walk(go.scratch):  # Go makes its module folders read-only
        Path(folder).chmod(0o755)
    shutil.rmtree(go.scratch, ignore_errors=True)
