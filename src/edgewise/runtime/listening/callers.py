"""Who is calling, as far as an address can tell."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from functools import lru_cache


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


def among(proxies: Iterable[str]) -> Callable[[str], bool]:
    """Whether an address is one of `proxies`: addresses, networks, or `*` for all."""
    named = frozenset(proxies)
    networks = [network for each in named if (network := _network(each)) is not None]

    @lru_cache(maxsize=4096)
    def found(address: str) -> bool:
        if "*" in named or address in named:
            return True
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in networks)

    return found


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
