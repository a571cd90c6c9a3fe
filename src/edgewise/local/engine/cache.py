"""Where the engine is kept: outside the repository, one folder per exact engine."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgewise.local.engine.progress import Progress
from edgewise.local.errors import LocalError
from edgewise.local.scratch import unfinished


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "edgewise"


class NoCache(LocalError):
    """There is no place to keep what was fetched or built."""


@contextmanager
def alone(file: Path, subject: str, progress: Progress) -> Iterator[None]:
    """Hold `file` as a lock: whoever comes second waits, and then finds the work done."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except (NotADirectoryError, FileExistsError) as error:
        raise NoCache(
            f"nothing can be kept in {file.parent}, because a part of that path is not a folder: "
            "set XDG_CACHE_HOME to one"
        ) from error
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(subject, "waiting for another process that is working on it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def put_link(target: str, link: Path) -> None:
    """Make `link` point to `target`, replacing what is there in one step."""
    fresh = unfinished(link)
    fresh.symlink_to(target)
    fresh.replace(link)
