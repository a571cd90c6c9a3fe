"""What a plan would otherwise have to look through all clients for.

It is a pure function of a status, and is carried along from plan to plan, changed only where
clients changed: so a join costs the same whether ten or two thousand clients are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

import msgspec

from edgewise.api.sessions import ClientPhase, ClientStatus, SessionStatus
from edgewise.exposure.endpoints import port_in

# Phases in which a client is owed nothing.
WITHOUT_SEATS = frozenset((ClientPhase.REFUSED, ClientPhase.EXPIRED))
# Phases in which nothing is expected to happen by itself.
SETTLED = frozenset((ClientPhase.READY, *WITHOUT_SEATS))
# Phases that end when the client shows up (or fits in).
AWAY = frozenset((ClientPhase.DISCONNECTED, *WITHOUT_SEATS))

Place = tuple[str, str]  # client and pod template in one, and the name of the port


class Digest(msgspec.Struct, frozen=True):
    revision_of: Mapping[str, str]  # of pods
    ip_of: Mapping[str, str]
    load: Mapping[str, int]  # pods that have clients, and how many
    pending: Set[str]  # clients that are not settled
    away: Set[str]  # clients that are not there, or were not let in
    ports: Mapping[Place, int]  # public ports that clients were told
    ready: int = 0  # how many clients are
    # Every client that is settled has a seat of each of these, as far as that was looked at.
    templates: frozenset[str] | None = None
    tokens: bool | None = None  # whether they have tokens


class DigestDraft(msgspec.Struct):
    """The same, while a step works on the status."""

    revision_of: dict[str, str]
    ip_of: dict[str, str]
    load: dict[str, int]
    pending: set[str]
    away: set[str]
    ports: dict[Place, int]
    ready: int = 0
    templates: frozenset[str] | None = None
    tokens: bool | None = None

    @classmethod
    def of(cls, digest: Digest) -> DigestDraft:
        return cls(
            dict(digest.revision_of),
            dict(digest.ip_of),
            dict(digest.load),
            set(digest.pending),
            set(digest.away),
            dict(digest.ports),
            digest.ready,
            digest.templates,
            digest.tokens,
        )

    def sealed(self) -> Digest:
        """What was worked out. The draft is not to be used any more: nothing is copied."""
        return Digest(
            self.revision_of,
            self.ip_of,
            self.load,
            self.pending,
            self.away,
            self.ports,
            self.ready,
            self.templates,
            self.tokens,
        )

    def take_in(self, client: str, before: ClientStatus | None, after: ClientStatus | None) -> None:
        """A client changed. (Where it sits is counted by whoever seats it.)"""
        phase = after.phase if after is not None else ClientPhase.READY
        _note(self.pending, client, after is not None and phase not in SETTLED)
        _note(self.away, client, phase in AWAY)
        self.ready += (after is not None and after.ready) - (before is not None and before.ready)
        if before is not None:
            for place in public_ports(client, before):
                self.ports.pop(place, None)
        if after is not None:
            self.ports.update(public_ports(client, after))


def _note(members: set[str], client: str, belongs: bool) -> None:
    if belongs:
        members.add(client)
    else:
        members.discard(client)


def public_ports(client: str, record: ClientStatus) -> dict[Place, int]:
    """Ports of the entry point that a client was told. Other places have no claims."""
    return {
        (f"{client}/{pod_template}", port): port_in(url)
        for pod_template, endpoints in record.endpoints.items()
        for port, url in endpoints.items()
        if url.startswith(("udp:", "tcp:"))
    }


def digest_of(status: SessionStatus) -> Digest:
    digest = DigestDraft({}, {}, {}, set(), set(), {})
    for revision, members in status.pods.items():
        digest.revision_of.update(dict.fromkeys(members, revision))
        digest.ip_of.update(members)
    digest.load = dict(
        Counter([pod for record in status.clients.values() for pod in record.pods.values()])
    )
    for client, record in status.clients.items():
        digest.take_in(client, None, record)
    return digest.sealed()
