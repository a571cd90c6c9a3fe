"""What the pods of every case run, the same in all of them, and the client of it."""

from __future__ import annotations

import abc
from typing import Any

import msgspec

NAMESPACE = "edgewise-evaluation"
HOLD_SECONDS = 1.0  # a client looks this often whether it still has its pod


class Opened(msgspec.Struct, frozen=True):
    """By which pod, and when (by `time.perf_counter`)."""

    pod: str
    at: float


class Connection(abc.ABC):
    """Of one client, to at most one pod."""

    @abc.abstractmethod
    async def open(self, url: str) -> Opened | None:
        """One try, which ends by itself; nothing if nobody takes the client there. What was open
        before is closed when the try succeeds."""

    @abc.abstractmethod
    async def holds(self) -> str:
        """The pod that still serves the client; empty if none does."""

    @abc.abstractmethod
    async def goodbye(self) -> None:
        """Tell the pod that the client leaves."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Without a word, as a connection breaks."""


class Workload(abc.ABC):
    port: int

    @abc.abstractmethod
    def pod_spec(self) -> dict[str, Any]:
        """The same in every case."""

    @abc.abstractmethod
    def connection(self, client: str) -> Connection: ...
