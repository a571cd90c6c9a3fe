"""What the operator has read of each session, and need not read again.

As long as the text of a status is what it was, so is what was read from it. After a write of
our own nothing has to be read at all: the plan knows what it has written.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from edgewise.api.sessions import (
    ClientStatus,
    IdlePod,
    PodPhase,
    Refusal,
    Revision,
    Session,
    SessionSpec,
    SessionStatus,
)
from edgewise.kube.objects import Key
from edgewise.kube.shallow import decoded
from edgewise.sessions.digest import Digest
from edgewise.sessions.raw_session import RawSession
from edgewise.sessions.steps.presence import not_connected

_specs = msgspec.json.Decoder(SessionSpec)
_statuses = msgspec.json.Decoder(SessionStatus)
_objects = msgspec.json.Decoder(dict[str, Any])


class DecodedSession(msgspec.Struct):
    """One session, read."""

    uid: str
    spec_text: msgspec.Raw
    spec: SessionSpec
    absent: dict[str, Any]
    status_text: msgspec.Raw
    status: SessionStatus
    digest: Digest | None = None
    # What stands in the status, where that cannot be read as one.
    nonsense: dict[str, Any] | None = None

    def session(self, raw: RawSession) -> Session:
        return Session(
            api_version=raw.KIND.api_version,
            kind=raw.KIND.kind,
            metadata=raw.metadata,
            spec=self.spec,
            status=self.status,
        )


class DecodedSessions:
    def __init__(self) -> None:
        self._decoded: dict[Key, DecodedSession] = {}

    def open(self, raw: RawSession) -> DecodedSession:
        page = self._decoded.get(raw.key)
        if page is None or page.uid != raw.metadata.uid:
            page = self._decoded[raw.key] = _read(raw)
            return page
        if not _same(page.spec_text, raw.spec):
            page.spec_text, page.spec = raw.spec, decoded(_specs, raw.spec)
            page.absent = not_connected(page.spec.clients)
        if not _same(page.status_text, raw.status):
            page.status_text, page.digest = raw.status, None
            page.status, page.nonsense = _read_status(raw.status)
        return page

    def turn(self, written: RawSession, status: SessionStatus, digest: Digest) -> None:
        """We have written this status: `written` is what the API server answered."""
        page = self._decoded.get(written.key)
        if page is not None and page.uid == written.metadata.uid:
            page.status_text, page.nonsense = written.status, None
            page.status, page.digest = status, digest

    def settled(self, raw: RawSession, status: SessionStatus, digest: Digest) -> None:
        """A plan found nothing to write: what it worked out on the way holds too."""
        page = self._decoded.get(raw.key)
        if page is not None and page.digest is None and page.status == status:
            page.digest = digest

    def count_pods(self) -> Counter[str]:
        """Pods of all sessions by phase, for whoever is on call."""
        found: Counter[str] = Counter()
        started = 0
        for page in self._decoded.values():
            status = page.status
            for members in status.pods.values():
                ready = sum(1 for ip in members.values() if ip)
                started += ready
                found[PodPhase.STARTING] += len(members) - ready
            for idle in status.idle.values():
                found[idle.phase] += 1
        idle_pods = found[PodPhase.RESETTING] + found[PodPhase.WAIT_FOR_REUSE]
        found[PodPhase.IN_USE] = started - idle_pods
        return found

    def count_clients(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for page in self._decoded.values():
            found.update(record.phase for record in page.status.clients.values())
        return found

    def uid_of(self, key: Key) -> str:
        """Of the session that was read last under this name; empty if none was."""
        page = self._decoded.get(key)
        return page.uid if page is not None else ""

    def forget(self, key: Key) -> str:
        """Answers the uid of the session that was there."""
        page = self._decoded.pop(key, None)
        return page.uid if page is not None else ""


def _same(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    return one is other or bytes(one) == bytes(other)


def _read(raw: RawSession) -> DecodedSession:
    spec = decoded(_specs, raw.spec)
    status, nonsense = _read_status(raw.status)
    return DecodedSession(
        uid=raw.metadata.uid,
        spec_text=raw.spec,
        spec=spec,
        absent=not_connected(spec.clients),
        status_text=raw.status,
        status=status,
        nonsense=nonsense,
    )


def _read_status(text: msgspec.Raw) -> tuple[SessionStatus, dict[str, Any] | None]:
    try:
        return decoded(_statuses, text), None
    except msgspec.ValidationError:
        raw = decoded(_objects, text)
        return salvage(raw), raw


def salvage(raw: dict[str, Any]) -> SessionStatus:
    """What can be read of a status that somebody has written nonsense into.

    The parts of it are independent enough: a client without a record joins anew, a pod
    without one is removed.
    """
    status = SessionStatus(
        next=_number(raw.get("next")),
        recoveries=_number(raw.get("recoveries")),
        clients=_entries(raw.get("clients"), ClientStatus),
        idle=_entries(raw.get("idle"), IdlePod),
        revisions=_entries(raw.get("revisions"), Revision),
        refusals=_entries(raw.get("refusals"), Refusal),
        pods=_entries(raw.get("pods"), dict[str, str]),
    )
    # Numbers of pods must not be given twice; those that are still known tell how far it was.
    numbers = [
        int(number)
        for members in status.pods.values()
        for pod in members
        if (number := pod.rpartition("-")[2]).isdecimal()
    ]
    status.next = max(status.next, *numbers, -1) + 1 if numbers else status.next
    return status


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _entries(value: Any, kind: Any) -> dict[str, Any]:
    found = {}
    for name, entry in value.items() if isinstance(value, dict) else ():
        try:
            found[name] = msgspec.convert(entry, kind)
        except msgspec.ValidationError:
            continue
    return found
