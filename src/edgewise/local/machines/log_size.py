"""Keeps the logs of a cluster from filling the disk."""

from __future__ import annotations

import os
from pathlib import Path

LIMIT = 32 << 20
KEPT = 1 << 20


def trim(logs: Path, limit: int = LIMIT, kept: int = KEPT) -> None:
    """Of a log that has grown too long, keep the end beside it, and begin anew.

    Programs append to their logs, so one that is emptied under them just goes on.
    """
    for log in logs.glob("*.log"):
        size = log.stat().st_size
        if size <= limit:
            continue
        with log.open("rb") as file:
            file.seek(size - kept)
            log.with_name(f"{log.name}.1").write_bytes(file.read())
        os.truncate(log, 0)
