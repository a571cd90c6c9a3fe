"""Who is asking, as far as an address can tell, and how much one caller may ask."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A probe sends 5 questions; these leave room for a house full of people behind one NAT."""

    per_caller: float = 50.0  # questions a second
    burst: int = 100
    altogether: float = 5_000.0
    connections: int = 1_000
    connections_per_caller: int = 32


@lru_cache(maxsize=4096)
def caller(address: str) -> str:
    """One IPv4 address, or one /64 of IPv6: who has one of its addresses has them all."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
