"""What the gateway has to know of a session: which public place leads to which pod.

This is the meeting point of operator and gateway, so it is pure data: both sides
derive the same routes from the same status, whoever sees it first.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from edgewise.api.sessions import Revision, Session
from edgewise.sessions.endpoints import port_in, seat_hostname, seat_in
from edgewise.sessions.seats import port_seat

Protocol = Literal["HTTP", "TCP", "UDP"]


class Route(msgspec.Struct, frozen=True):
    """One exposed port of one seat."""

    seat: str
    port_name: str
    protocol: Protocol
    listen_port: int  # 0 for HTTP, which shares one port and is told apart by path
    address: str  # the pod's IP
    target_port: int
    token_sha256: str = ""  # hex; empty: the unguessable seat is enough
    hostname: str = ""

    @property
    def id(self) -> str:
        return f"{self.seat}/{self.port_name}"


def routes_of(session: Session, *, domain: str = "") -> list[Route]:
    """All routes that the session's status says exist.

    A client has them from the moment its endpoints are published, for as long as its pod
    has an address: a dead pod's address may soon be somebody else's.
    """
    status = session.status
    where = {
        pod: (revision, ip)
        for revision, members in status.pods.items()
        for pod, ip in members.items()
        if ip
    }
    uid = session.metadata.uid
    found: list[Route] = []
    for client, record in status.clients.items():
        for pod_template, endpoints in record.endpoints.items():
            placed = where.get(record.pods.get(pod_template, ""))
            revision = status.revisions.get(placed[0]) if placed else None
            if placed and revision and revision.exposure == "Gateway":
                token = record.tokens.get(pod_template, "")
                seat = Seat(uid, client, revision, placed[1], endpoints, token)
                found += seat_routes(seat, domain)
    return found


class Seat(msgspec.Struct, frozen=True):
    """One client in one pod, and the endpoints that lead there."""

    session_uid: str
    client: str
    revision: Revision
    ip: str
    endpoints: dict[str, str]
    token_sha256: str = ""


def seat_routes(seat: Seat, domain: str = "") -> list[Route]:
    """The routes of one seat, from what its endpoints say."""
    found = []
    for port in seat.revision.ports:
        url = seat.endpoints.get(port.name)
        if url is None:
            continue
        if port.protocol == "HTTP":
            id, listen, token = seat_in(url), 0, seat.token_sha256
        else:
            id = port_seat(seat.session_uid, seat.client, seat.revision.pod_template)
            listen, token = port_in(url), ""
        found.append(
            Route(
                seat=id,
                port_name=port.name,
                protocol=port.protocol,
                listen_port=listen,
                address=seat.ip,
                target_port=port.port,
                token_sha256=token,
                hostname=seat_hostname(id, port.name, domain) if domain and not listen else "",
            )
        )
    return found
