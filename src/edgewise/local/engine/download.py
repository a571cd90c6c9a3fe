"""Fetching published programs: checked, resumable, and quick to say that there is no internet."""

import hashlib
import re
import shutil
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgewise.local.engine.pins import EngineError
from edgewise.local.engine.progress import Progress
from edgewise.local.engine.releases import Release
from edgewise.local.scratch import unfinished

CHUNK = 1 << 20
ATTEMPTS = 3
STALLED = 30.0  # seconds without a byte


class DownloadError(EngineError):
    """A published program could not be fetched, or was not what was published."""


def reachable(release: Release, patience: float = 2.5) -> bool:
    """Whether the publisher answers soon.

    A thread, because looking a name up can hang for long where there is no network,
    and cannot be interrupted.
    """
    answered = threading.Event()

    def ask() -> None:
        try:
            read_small(release.checksum_url, timeout=patience)
        except DownloadError:
            return
        answered.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(patience)
    return answered.is_set()


def download(release: Release, subject: str, target: Path, progress: Progress) -> None:
    """Put the program into `target`; what is there afterwards has the published checksum."""
    target.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    progress(subject, "downloading")
    expected = published_checksum(release)
    part = target / f".{release.file_name}.part"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            fetch(release.url, part, lambda text: progress(subject, text))
            break
        except DownloadError:
            if attempt == ATTEMPTS:
                raise
            progress(subject, "the connection broke; going on")
    found = checksum(part, release.algorithm)
    if found != expected:
        part.unlink()
        raise DownloadError(
            f"{release.url} does not have its published {release.algorithm} checksum: "
            "something between here and there changed it"
        )
    fresh = unfinished(target / release.program)
    try:
        extract(part, release.member, fresh)
        fresh.chmod(0o755)
        fresh.replace(target / release.program)
    finally:
        fresh.unlink(missing_ok=True)
    part.unlink(missing_ok=True)
    progress(subject, f"downloaded in {time.monotonic() - started:.0f} s")


def open_url(url: str, timeout: float, headers: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "edgewise", **(headers or {})})  # noqa: S310
    return urllib.request.urlopen(request, timeout=timeout)  # noqa: S310 - addresses are our own


def read_small(url: str, timeout: float = 15.0) -> str:
    try:
        with open_url(url, timeout) as answer:
            return str(answer.read(1 << 20).decode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        raise DownloadError(f"{url} cannot be fetched: {error}") from error


def published_checksum(release: Release) -> str:
    return pick_checksum(read_small(release.checksum_url), release)


def pick_checksum(text: str, release: Release) -> str:
    """Checksum files hold a bare digest, or lines of digest and file name."""
    length = hashlib.new(release.algorithm).digest_size * 2
    for line in text.splitlines():
        digest, _, name = line.strip().partition(" ")
        if re.fullmatch(rf"[0-9a-fA-F]{{{length}}}", digest) and (
            not name or name.strip().lstrip("*") == release.file_name
        ):
            return digest.lower()
    raise DownloadError(f"{release.checksum_url} has no checksum for {release.file_name}")


def fetch(url: str, part: Path, say: Callable[[str], None]) -> None:
    """Append to `part` what is still missing of `url`."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        with open_url(url, STALLED, headers) as answer:
            if answer.status != 206:  # the server does not resume, so begin again
                have = 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length else 0
            with part.open("ab" if have else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    have += len(chunk)
                    say(amount(have, total))
        if total and have != total:
            raise DownloadError(f"{url} ended after {have} of {total} bytes")
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is missing; the checksum decides
            return
        raise DownloadError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) is not None and not isinstance(
            error, ConnectionError | TimeoutError | urllib.error.URLError
        ):
            raise  # the disk's trouble, not the network's
        raise DownloadError(f"{url} cannot be fetched: {error}") from error


def amount(have: int, total: int) -> str:
    return f"{have / 1e6:.0f} MB" + (f" of {total / 1e6:.0f} MB" if total else "")


def checksum(file: Path, algorithm: str) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()


def extract(archive: Path, member: str, to: Path) -> None:
    if not member:
        archive.replace(to)
        return
    try:
        with tarfile.open(archive) as opened:
            source = opened.extractfile(member)
            if source is None:
                raise KeyError(member)
            with source, to.open("wb") as file:
                shutil.copyfileobj(source, file, CHUNK)
    except (tarfile.TarError, KeyError) as error:
        raise DownloadError(f"{archive.name} does not hold {member}") from error
