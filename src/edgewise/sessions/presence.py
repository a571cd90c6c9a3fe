"""Who is there: clients that joined, left, were lost, came back, or waited too long."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from edgewise.api.sessions import ClientStatus
from edgewise.sessions.deadlines import kept, moment, stamp
from edgewise.sessions.draft import Draft, named

CLIENT_ID = re.compile(r"[A-Za-z0-9]([-_.@:A-Za-z0-9]{0,61}[A-Za-z0-9])?")
CLIENT_ID_RULE = (
    "must have 1 to 63 letters, digits or -_.@: and begin and end with a letter or digit"
)

REFUSED = "Refused"
STARTING = "Starting"
LOST = "WaitForReconnection"
EXPIRED = "Expired"
# Phases in which a client is owed nothing.
WITHOUT_SEATS = frozenset((REFUSED, EXPIRED))


def notice_presence(draft: Draft) -> None:
    wanted = draft.seen.session.spec.clients
    for client in draft.clients.keys() - wanted.keys():
        draft.forget_client(client)
    absent = [client for client, entry in wanted.items() if not _connected(entry)]
    for client in absent:
        _lost(draft, client, wanted[client])
    _returned(draft, set(absent))
    _joined(draft, [c for c in wanted.keys() - draft.clients.keys() if _connected(wanted[c])])


def _connected(entry: Any) -> bool:
    # The API server keeps this map open, so anything may stand here.
    if isinstance(entry, dict):
        return entry.get("connected", True) is True
    return entry is True


def _lost(draft: Draft, client: str, entry: Any) -> None:
    record = draft.clients.get(client)
    if not isinstance(entry, dict | bool):
        message = f"spec.clients.{client} must be an object with connected: true or false"
        _refuse(draft, client, message)
        return
    if record is None or record.phase in WITHOUT_SEATS:
        # It has nothing that could be kept for it.
        draft.set_client(client, ClientStatus(phase=EXPIRED))
        return
    if draft.seen.workload is None and record.until is None:
        # How long it may stay away is not known: it keeps what it has.
        draft.set_client(client, msgspec.structs.replace(record, phase=LOST))
        return
    period = draft.workload.timeout_seconds
    if record.phase != LOST:
        deadline = draft.now + period
    elif draft.seen.workload is None:
        deadline = moment(record.until) or draft.now
    else:
        deadline = kept(record.until, period, draft.now)
    if draft.due(deadline):
        draft.leave_seats(record.pods)
        draft.set_client(client, ClientStatus(phase=EXPIRED))
        draft.tally.expiries += 1
        draft.note("ClientExpired", f"{client} did not come back in time and lost its pods")
    else:
        draft.set_client(client, msgspec.structs.replace(record, phase=LOST, until=stamp(deadline)))


def _returned(draft: Draft, absent: set[str]) -> None:
    """Whoever waited and is back keeps its seats; whoever waited too long joins anew."""
    back = [
        client
        for client, record in draft.clients.items()
        if record.phase in _AWAY and client not in absent
    ]
    for client in back:
        record = draft.clients[client]
        if record.phase == LOST:
            draft.set_client(client, msgspec.structs.replace(record, phase=STARTING, until=None))
        else:
            draft.clients.pop(client)
            draft.touched.add(client)


_AWAY = frozenset((LOST, EXPIRED, REFUSED))


def _joined(draft: Draft, joined: list[str]) -> None:
    limit = draft.workload.max_clients
    room = len(joined)
    if limit:
        room = limit - sum(
            1 for record in draft.clients.values() if record.phase not in WITHOUT_SEATS
        )
    refused = []
    for client in sorted(joined):
        why = _why_refused(draft, client, room)
        if why:
            _refuse(draft, client, why)
            refused.append(client)
            continue
        room -= 1
        draft.set_client(client, ClientStatus(phase=STARTING))
        if client not in draft.old.clients:
            draft.tally.joins += 1
    if refused:
        draft.warn("ClientsRefused", f"not admitted: {named(refused)}")


def _why_refused(draft: Draft, client: str, room: int) -> str:
    if not CLIENT_ID.fullmatch(client):
        return f"the client id {CLIENT_ID_RULE}"
    limit = draft.workload.max_sessions
    if limit and draft.seen.older_sessions >= limit:
        return f"the template allows {limit} sessions, and there are as many older ones"
    if room <= 0:
        return f"the session is full: maxClients is {draft.workload.max_clients}"
    return ""


def _refuse(draft: Draft, client: str, message: str) -> None:
    record = draft.clients.get(client)
    if record is not None:
        draft.leave_seats(record.pods)
    new = ClientStatus(phase=REFUSED, message=message)
    if draft.old.clients.get(client) != new:
        draft.tally.refusals += 1
    draft.set_client(client, new)
