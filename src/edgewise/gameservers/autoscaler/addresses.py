"""Which addresses an author may make the operator call.

Whoever may create a GameAutoscaler names a URL, and the operator, which stands where the author
may not, calls it. Addresses that only the machine itself should reach are refused: loopback,
link-local (where clouds keep the credentials of a machine), and what is no single machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

from edgewise.errors import ReadableError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Where clouds answer with a machine's credentials, besides link-local addresses.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200")))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Names that are looked up at once, of all autoscalers and of those of one namespace. A thread is
# made when it is needed, and one that waits has 25 kB: 128 namespaces whose names are never
# answered would be needed to hold up all others.
THREADS = 512
MOST_OF_ONE = 4
_LOW_32 = 0xFFFF_FFFF


class ForbiddenAddress(ReadableError, OSError):
    """The operator does not call this address. The text says why."""


def check_address(text: str, *, local: bool) -> None:
    """Raise ForbiddenAddress for an address that nobody may have called; `local` allows all."""
    if local:
        return
    address = _behind(ipaddress.ip_address(text.partition("%")[0]))
    if address.is_loopback:
        raise ForbiddenAddress("it leads to the operator's own machine (loopback)")
    if address.is_link_local or address in _METADATA:
        raise ForbiddenAddress("it leads to a link-local or metadata address")
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        raise ForbiddenAddress("it leads to no single machine")


def _behind(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        if (mapped := address.ipv4_mapped or address.sixtofour) is not None:
            return mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & _LOW_32)
    return address


class Lookups:
    """Looks names up, each in a thread that nobody can end before the name server answers.

    Threads of its own, and of one namespace only a few: whose names are never answered holds up
    neither the names of others nor anything else that needs a thread.
    """

    def __init__(self, *, threads: int = THREADS, most: int = MOST_OF_ONE) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-names")
        self._most = most
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._asking: Counter[str] = Counter()

    async def look_up(
        self, namespace: str, host: str, port: int, family: socket.AddressFamily
    ) -> list[ResolveResult]:
        turn = self._turns.setdefault(namespace, asyncio.Semaphore(self._most))
        self._asking[namespace] += 1
        try:
            await turn.acquire()
        except asyncio.CancelledError:
            self._leave(namespace)
            raise
        ask = partial(
            socket.getaddrinfo,
            host,
            port,
            family=family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        asked = self._threads.submit(ask)
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the operator has ended meanwhile
                loop.call_soon_threadsafe(self._ended, namespace, turn)

        # When the thread has ended, not when somebody stopped waiting for it.
        asked.add_done_callback(ended)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=found,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, protocol, _, address in await asyncio.wrap_future(asked)
        ]

    def _ended(self, namespace: str, turn: asyncio.Semaphore) -> None:
        turn.release()
        self._leave(namespace)

    def _leave(self, namespace: str) -> None:
        self._asking[namespace] -= 1
        if not self._asking[namespace]:
            del self._asking[namespace]
            del self._turns[namespace]


class GuardedResolver(AbstractResolver):
    """Looks names up and checks what comes of it: the very addresses that are then called, so a
    name that means something else a moment later helps nobody."""

    def __init__(self, lookups: Lookups, namespace: str, *, local: bool) -> None:
        self._lookups = lookups
        self._namespace = namespace
        self._local = local

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._lookups.look_up(self._namespace, host, port, family)
        for each in found:
            check_address(str(each["host"]), local=self._local)
        return found

    async def close(self) -> None:
        return None
