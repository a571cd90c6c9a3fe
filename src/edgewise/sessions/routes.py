"""What the gateway has to know of a session: which public place leads to which pod.

This is the meeting point of operator and gateway, so it is pure data: both sides
derive the same routes from the same status, whoever sees it first.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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
