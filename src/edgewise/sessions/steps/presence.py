"""Who is there: clients that joined, left, were disconnected, came back, or waited too long."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any

import msgspec

from edgewise.api.sessions import ClientPhase, ClientStatus
from edgewise.sessions.digest import WITHOUT_SEATS
from edgewise.sessions.draft import Draft, named
from edgewise.workloads.deadlines import kept, moment, stamp

CLIENT_ID = re.compile(r"[A-Za-z0-9]([-_.@:A-Za-z0-9]{0,61}[A-Za-z0-9])?")
CLIENT_ID_RULE = (
    "must have 1 to 63 letters, digits or -_.@: and begin and end with a letter or digit"
)


def notice_presence(draft: Draft) -> None:
    wanted = draft.seen.session.spec.clients
    for client in draft.clients.keys() - wanted.keys():
        draft.forget_client(client)
    absent = draft.seen.absent
    if absent is None:
        absent = not_connected(wanted)
    for client, entry in absent.items():
        _lost(draft, client, entry)
    _returned(draft, absent)
    _joined(draft, wanted.keys() - draft.clients.keys() - absent.keys())


def not_connected(clients: Mapping[str, Any]) -> dict[str, Any]:
    """Entries that do not say that their client is there."""
    return {client: entry for client, entry in clients.items() if not _connected(entry)}


def _connected(entry: Any) -> bool:
    # The API server keeps this map open, so anything may stand here.
    if isinstance(entry, dict):
        return entry.get("connected", True) is True
    return entry is True


def _says_whether(entry: Any) -> bool:
    return isinstance(entry, bool) or isinstance(entry.get("connected"), bool)


def _lost(draft: Draft, client: str, entry: Any) -> None:
    record = draft.clients.get(client)
    served = record is not None and record.phase not in WITHOUT_SEATS
    if not isinstance(entry, dict | bool) or not (served or _says_whether(entry)):
        message = f"spec.clients.{client} must be an object with connected: true or false"
        _refuse(draft, client, message)
        return
    if record is None or record.phase in WITHOUT_SEATS:
        # It has nothing that could be kept for it.
        draft.set_client(client, ClientStatus(phase=ClientPhase.EXPIRED))
        return
    if draft.seen.workload is None and record.until is None:
        # How long it may stay away is not known: it keeps what it has.
        draft.set_client(client, msgspec.structs.replace(record, phase=ClientPhase.DISCONNECTED))
        return
    period = draft.workload.timeout_seconds
    if record.phase != ClientPhase.DISCONNECTED:
        deadline = draft.now + period
    elif draft.seen.workload is None:
        deadline = moment(record.until) or draft.now
    else:
        deadline = kept(record.until, period, draft.now)
    if draft.due(deadline):
        draft.leave_seats(record.pods)
        draft.set_client(client, ClientStatus(phase=ClientPhase.EXPIRED))
        draft.tally.expiries += 1
        draft.note("ClientExpired", f"{client} did not come back in time and lost its pods")
    else:
        draft.set_client(
            client,
            msgspec.structs.replace(record, phase=ClientPhase.DISCONNECTED, until=stamp(deadline)),
        )


def _returned(draft: Draft, absent: Mapping[str, Any]) -> None:
    """Whoever waited and is back keeps its seats; whoever waited too long joins anew."""
    for client in draft.digest.away - absent.keys():
        record = draft.clients[client]
        if record.phase == ClientPhase.DISCONNECTED:
            draft.set_client(
                client, msgspec.structs.replace(record, phase=ClientPhase.STARTING, until=None)
            )
        else:
            draft.forget_client(client)


def _joined(draft: Draft, joined: Set[str]) -> None:
    limit = draft.workload.max_clients
    room = len(joined)
    if limit:
        outside = sum(1 for c in draft.digest.away if draft.clients[c].phase in WITHOUT_SEATS)
        room = limit - (len(draft.clients) - outside)
    refused = []
    for client in sorted(joined):
        why = _why_refused(draft, client, room)
        if why:
            _refuse(draft, client, why)
            refused.append(client)
            continue
        room -= 1
        draft.set_client(client, ClientStatus(phase=ClientPhase.STARTING))
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
    new = ClientStatus(phase=ClientPhase.REFUSED, message=message)
    if draft.old.clients.get(client) != new:
        draft.tally.refusals += 1
    draft.set_client(client, new)
