"""Building the engine's programs from their pinned modules."""

import os
import shutil
import signal
import subprocess
import time
from collections import deque
from pathlib import Path

from edgewise.local.engine_cache import put_link
from edgewise.local.engine_go import Go
from edgewise.local.engine_pins import BUILD_FLAGS, EngineError, Module, Pins
from edgewise.local.engine_progress import Progress
from edgewise.local.scratch import unfinished

# Seen on a machine with two cores: modules, objects and temporary files together.
ROOM = {"kubernetes": 5_000_000_000, "kwok": 2_000_000_000, "coredns": 2_000_000_000}


def build(module: Module, pins: Pins, go: Go, target: Path, progress: Progress) -> None:
    """Build `module` into `target`; what is there afterwards is complete."""
    subject = f"{module.name} {pins.versions[module.name]}".strip()
    target.mkdir(parents=True, exist_ok=True)
    check_room(module, target)
    log = target / f"{module.name}.log"
    fresh = unfinished(target / module.binary)
    started = time.monotonic()
    progress(subject, f"building with Go {go.version}")
    try:
        run_go(build_command(module, pins, go, fresh), go, log, subject, progress)
        fresh.chmod(0o755)
        fresh.replace(target / module.binary)
    finally:
        fresh.unlink(missing_ok=True)
    for program in module.programs:
        if program != module.binary:
            put_link(module.binary, target / program)
    log.unlink(missing_ok=True)
    progress(subject, f"built in {time.monotonic() - started:.0f} s")


def build_command(module: Module, pins: Pins, go: Go, output: Path) -> list[str]:
    linker = " ".join(["-s", "-w", *module.stamp(pins.versions[module.name])])
    return [
        str(go.program),
        "build",
        "-C",
        str(pins.source / module.name),
        "-v",  # names each package as it is compiled: the progress
        *BUILD_FLAGS,
        "-ldflags",
        linker,
        "-o",
        str(output),
        module.package,
    ]


def run_go(command: list[str], go: Go, log: Path, subject: str, progress: Progress) -> None:
    # The modules pin everything; a workspace or vendoring around them must not matter.
    environment = {**os.environ, **go.environment, "CGO_ENABLED": "0", "GOWORK": "off"}
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


def check_room(module: Module, target: Path) -> None:
    needed = ROOM.get(module.name, 500_000_000)
    free = shutil.disk_usage(target).free
    if free < needed:
        raise EngineError(
            f"building {module.name} needs about {needed / 1e9:.1f} GB of disk and {target} has "
            f"{free / 1e9:.1f} GB left: free some, or set XDG_CACHE_HOME to another disk"
        )


def remove_scratch(go: Go) -> None:
    """A private Go's modules and objects are of no use once everything is built."""
    if go.scratch is None or not go.scratch.exists():
        return
    for folder, _, _ in os.walk(go.scratch):  # Go makes its module folders read-only
        Path(folder).chmod(0o755)
    shutil.rmtree(go.scratch, ignore_errors=True)
