"""What happens to a cluster, line by line: written by its manager, read by whoever waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec


class Event(msgspec.Struct, frozen=True):
    at: float
    what: str
    state: str
    detail: str = ""


STARTED = "started"
ADOPTED = "adopted"
ENDED = "ended"

_decoder = msgspec.json.Decoder(Event)


def note(path: Path, what: str, state: str, detail: str = "") -> None:
    line = msgspec.json.encode(Event(time.time(), what, state, detail)) + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


class Reader:
    """Reads on from where it was; only whole lines."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self.offset = path.stat().st_size if from_end and path.exists() else 0

    def new(self) -> list[Event]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return [_decoder.decode(line) for line in whole.splitlines()]
