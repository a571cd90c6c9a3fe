"""What a run writes down as it goes: a line for each, so that what is stopped keeps what it has."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    CONNECT = "connect"
    RECOVER = "recover"
    RECONNECT = "reconnect"  # a connection broke although nobody deleted the client's pod
    LEFT_WAITING = "left-waiting"  # the trace let the client leave before it was let in
    EVENT = "event"  # how late an event began
    NO_POD = "no-pod"  # a pod was to be deleted, and no client had one
    USE = "use"  # memory and processor, of pods and of the parts that serve them
    DONE = "done"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: Kind
    at: float  # seconds since the run began
    seconds: float = 0.0
    session: str = ""
    client: str = ""
    tries: int = 0
    failed: str = ""
    pods: int = 0
    pods_mb: float = 0.0
    pods_cpu: float = 0.0  # cores
    parts: dict[str, tuple[float, float]] = {}  # program → MB, cores
    api_writes: int | None = None  # when it is done: of the API servers, heartbeats apart
    machine: dict[str, float] = {}  # when it is done: how busy it was, and what its host took
    command: str = ""  # when it is done: several may have filled one folder
