"""What operator and gateway agree on: which public place leads to which pod, and whose it is.

This is their meeting point, so it is pure data: both sides derive the same routes from the
same status, whichever of them sees it first.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Protocol = Literal["HTTP", "TCP", "UDP"]


class Owner(NamedTuple):
    """Whose routes they are. The domain belongs to it: what two domains define may have the
    same namespace and name."""

    domain: str
    name: str  # with its namespace: ns/name

    def __str__(self) -> str:
        return f"{self.name} ({self.domain})"


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
