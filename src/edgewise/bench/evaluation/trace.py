"""A trace: what happens when, in a plain file, so that every design gets the same load."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.errors import UNREADABLE_JSON

VERSION = 1
# What is left of a name when a case has put its own words around it is still one.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?")
MOST_EVENTS = 200_000
MOST_BYTES = 64 * 1024 * 1024


class TraceError(ReadableError):
    """A trace cannot be used, with the line that is to blame."""


class Do(StrEnum):
    CREATE_SESSION = "create-session"
    DELETE_SESSION = "delete-session"
    CREATE_CLIENT = "create-client"
    DELETE_CLIENT = "delete-client"
    DELETE_POD = "delete-pod"


class Event(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One line. Which pod is deleted is decided when it happens, among those that clients have."""

    at: float  # seconds from the beginning
    do: Do
    session: str = ""
    client: str = ""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line. The number of events tells a whole file from one that was cut."""

    version: int
    preset: str
    seed: int
    seconds: float
    events: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    preset: str
    seed: int
    seconds: float
    events: tuple[Event, ...]

    @property
    def peak(self) -> int:
        """The most clients at one time."""
        return max((clients for _, _, clients in populations(self.events)), default=0)

    @property
    def peak_sessions(self) -> int:
        return max((sessions for _, sessions, _ in populations(self.events)), default=0)


def populations(events: Iterable[Event]) -> Iterable[tuple[float, int, int]]:
    """After each event: when it was, and how many sessions and clients there are."""
    members: dict[str, set[str]] = {}
    for event in events:
        _happened(event, members)
        yield event.at, len(members), sum(map(len, members.values()))


def written(trace: Trace) -> bytes:
    """The same trace is always the same bytes."""
    encoder = msgspec.json.Encoder(order="deterministic")
    header = Header(
        version=VERSION,
        preset=trace.preset,
        seed=trace.seed,
        seconds=trace.seconds,
        events=len(trace.events),
    )
    out = io.BytesIO()
    for line in itertools.chain([header], trace.events):
        out.write(encoder.encode(line) + b"\n")
    return out.getvalue()


def read_file(path: Path) -> Trace:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TraceError(f"{path} is larger than {MOST_BYTES // 1024 // 1024} MiB: no trace is")
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"the trace {path} cannot be read: {error.strerror}") from None
    return parsed(data, str(path))


def parsed(data: bytes, name: str) -> Trace:
    """The trace in these lines, each of them checked: a wrong one would be noticed in mid-run."""
    lines = data.splitlines()
    header = _header(lines, name)
    body = lines[1:]
    if len(body) < header.events or not data.endswith(b"\n"):
        raise TraceError(
            f"{name} was cut: it has {len(body)} of {header.events} events; generate it once more"
        )
    if len(body) > header.events:
        raise TraceError(f"{name} has {len(body)} events where its first line says {header.events}")
    decoder = msgspec.json.Decoder(Event)
    events = []
    for number, line in enumerate(body, start=2):
        try:
            events.append(decoder.decode(line))
        except UNREADABLE_JSON as error:
            raise TraceError(f"{name}, line {number}: {error}") from None
    _check(events, header.seconds, name)
    return Trace(
        preset=header.preset, seed=header.seed, seconds=header.seconds, events=tuple(events)
    )


def _header(lines: Sequence[bytes], name: str) -> Header:
    if not lines:
        raise TraceError(f"{name} is empty")
    try:
        header = msgspec.json.decode(lines[0], type=Header)
    except UNREADABLE_JSON:
        raise TraceError(
            f"{name} is no trace: its first line does not say what it is; "
            "`edgewise bench trace generate` writes one"
        ) from None
    if header.version != VERSION:
        raise TraceError(f"{name} is a trace of version {header.version}; this is for {VERSION}")
    if not 0 < header.seconds < 1e7 or not 0 <= header.events <= MOST_EVENTS:
        raise TraceError(f"{name}: its first line has numbers that no trace has")
    return header


def _check(events: Sequence[Event], seconds: float, name: str) -> None:
    """That the events can happen in this order."""
    before = 0.0
    members: dict[str, set[str]] = {}
    for number, event in enumerate(events, start=2):
        where = f"{name}, line {number}"
        if not before <= event.at <= seconds:
            raise TraceError(f"{where}: {event.at:g} s is not between {before:g} and {seconds:g} s")
        before = event.at
        for word, value in (("session", event.session), ("client", event.client)):
            if value and not _NAME.fullmatch(value):
                raise TraceError(f"{where}: {value!r} cannot be the name of a {word}")
        if wrong := _happened(event, members):
            raise TraceError(f"{where}: {wrong}")


def _happened(event: Event, members: dict[str, set[str]]) -> str:
    """Let it happen to the sessions and their clients; a sentence if it cannot."""
    if event.do is Do.DELETE_POD:
        return ""
    clients = members.get(event.session)
    if event.do is Do.CREATE_SESSION:
        if not event.session or clients is not None:
            return f"a session {event.session!r} cannot be made at that time"
        members[event.session] = clients = set()
    if clients is None:
        return f"there is no session {event.session!r} at that time"
    if event.do is Do.DELETE_SESSION:
        del members[event.session]
    if event.do in (Do.CREATE_SESSION, Do.DELETE_SESSION):
        return ""
    comes = event.do is Do.CREATE_CLIENT
    if not event.client or comes == (event.client in clients):
        return f"client {event.client!r} is {'there already' if comes else 'not there'}"
    clients.symmetric_difference_update({event.client})
    return ""
