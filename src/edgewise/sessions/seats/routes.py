"""The routes of one seat, from what its endpoints say."""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import Revision
from edgewise.exposure.endpoints import port_in, seat_hostname, seat_in
from edgewise.exposure.route import Route
from edgewise.exposure.seats import port_seat


class ServedSeat(msgspec.Struct, frozen=True):
    """One client in one pod, and the endpoints that lead there."""

    session_uid: str
    client: str
    revision: Revision
    ip: str
    endpoints: dict[str, str]
    token_sha256: str = ""


def seat_routes(seat: ServedSeat, wildcard: str = "") -> list[Route]:
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
                hostname=seat_hostname(id, port.name, wildcard) if wildcard and not listen else "",
            )
        )
    return found
