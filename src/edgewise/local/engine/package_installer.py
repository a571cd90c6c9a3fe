"""Whatever installs Python packages here: uv if it can be found, else pip."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from edgewise.local.engine.cache import cache_root


def find_uv() -> str | None:
    """uv on PATH, beside this Python, where tools/bootstrap puts it, or where it puts itself."""
    for place in (
        shutil.which("uv"),
        Path(sys.prefix) / "bin" / "uv",
        cache_root() / "uv" / "bin" / "uv",
        Path.home() / ".local" / "bin" / "uv",
    ):
        if place and os.access(place, os.X_OK) and runs([str(place), "--version"]):
            return str(place)
    return None


def find_pip() -> list[str] | None:
    for python in (sys.executable, shutil.which("python3")):
        if python and runs([python, "-m", "pip", "--version"]):
            return [python, "-m", "pip"]
    return None


def installers() -> list[list[str]]:
    """Commands that take pip's arguments, best first."""
    uv, pip = find_uv(), find_pip()
    return ([[uv, "pip"]] if uv else []) + ([pip] if pip else [])


def run_installer(command: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run it; once more with the system's authorities if it does not trust the other side.

    uv has a list of its own, which does not know the proxy of a company.
    """
    for trust in ({}, {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, **trust},
        )
        if done.returncode == 0 or "certificate" not in done.stderr.lower():
            break
    return done


def runs(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
