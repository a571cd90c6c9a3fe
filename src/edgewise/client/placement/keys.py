"""Report keys as the server gives them, and how a report is signed with one."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

import msgspec


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    ping: str


class ReportKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `POST …/keys` answers. The key itself is a secret of this client."""

    client: str
    key: str
    expires: int
    topic: str
    group: str = ""
    broker: str = ""
    observation_ms: float = 1000.0
    mode: str = "Sentinel"
    nodes: list[NodeAddress] = []

    def __repr__(self) -> str:
        return f"ReportKey({self.client}, {self.topic}, until {self.expires})"

    @property
    def observation(self) -> float:
        return max(0.05, self.observation_ms / 1000)


def sign(key: ReportKey, rtt_ms: float, *, pod: str = "", node: str = "", app: str = "") -> bytes:
    """A report: JSON whose last member is the HMAC of all bytes before it."""
    said: dict[str, Any] = {
        "app": app,
        "timestamp": round(time.time(), 6),
        "rtt": round(rtt_ms, 3),
        "client": key.client,
        "expires": key.expires,
    }
    if key.group:
        said["group"] = key.group
    said["pod" if pod else "node"] = pod or node
    head = json.dumps(said, separators=(",", ":")).encode().removesuffix(b"}")
    mac = hmac.digest(bytes.fromhex(key.key), head, hashlib.sha256).hex()
    return head + b',"mac":"' + mac.encode() + b'"}'
