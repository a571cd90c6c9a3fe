"""Which addresses an author may make the operator call.

Whoever may create a GameAutoscaler names a URL, and the operator, which stands where the author
may not, calls it. Addresses that only the machine itself should reach are refused: loopback,
link-local (where clouds keep the credentials of a machine), and what is no single machine.
"""

from __future__ import annotations

import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Where clouds answer with a machine's credentials, besides link-local addresses.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200")))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LOW_32 = 0xFFFF_FFFF


class Forbidden(OSError):
    """The operator does not call this address. The text says why."""


def check_address(text: str, *, local: bool) -> None:
    """Raise Forbidden for an address that nobody may have called; `local` allows all."""
    if local:
        return
    address = _behind(ipaddress.ip_address(text.partition("%")[0]))
    if address.is_loopback:
        raise Forbidden("it leads to the operator's own machine (loopback)")
    if address.is_link_local or address in _METADATA:
        raise Forbidden("it leads to a link-local or metadata address")
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        raise Forbidden("it leads to no single machine")


def _behind(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        if (mapped := address.ipv4_mapped or address.sixtofour) is not None:
            return mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & _LOW_32)
    return address


class GuardedResolver(AbstractResolver):
    """Looks names up and checks what comes of it: the very addresses that are then called, so a
    name that means something else a moment later helps nobody."""

    def __init__(self, *, local: bool) -> None:
        self._local = local
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for each in found:
            check_address(str(each["host"]), local=self._local)
        return found

    async def close(self) -> None:
        await self._inner.close()
