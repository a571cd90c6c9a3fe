"""What the game has said, in memory and in a file of the pod.

A sidecar that is started again forgets nothing, and an operator that was away is told later.
"""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


def moment(seconds: float | None = None) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    at = time.time() if seconds is None else seconds
    text = datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")  # noqa: UP017
    return text.replace("+00:00", "Z")


class SaidBook:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed = threading.Condition()
        self._words: dict[str, Any] = _read(file)
        # What an earlier sidecar has read may not have reached the operator.
        self._version = 1 if self._words else 0
        self._reported = 0
        # When the game last said that it is well; on the clock that never jumps.
        self.well_at: float | None = None

    def get(self, name: str, default: Any = None) -> Any:
        with self._changed:
            return self._words.get(name, default)

    def words(self) -> tuple[dict[str, Any], int]:
        with self._changed:
            return dict(self._words), self._version

    def say(self, **words: Any) -> None:
        """The file first: the game is answered when its words cannot be lost any more."""
        with self._changed:
            new = {**self._words, **words}
            new = {name: value for name, value in new.items() if value is not None}
            if new == self._words:
                return
            _write(self._file, new)
            self._words = new
            self._version += 1
            self._changed.notify_all()

    def allow(self, allowed: bool) -> None:
        """Since when counts, so the same word again does not begin it again."""
        if self.get("allowed") != allowed:
            self.say(allowed=allowed, allowedSince=moment())

    def wait_unreported(self) -> None:
        with self._changed:
            while self._reported >= self._version:
                self._changed.wait()

    def reported(self, version: int) -> None:
        with self._changed:
            self._reported = max(self._reported, version)
            self._changed.notify_all()

    def wait_reported(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._reported >= self._version, seconds)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(file: Path, words: dict[str, Any]) -> None:
    new = file.with_name(file.name + ".new")
    with new.open("w") as out:
        json.dump(words, out)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
