"""The ping agent: both halves, on the addresses that it is given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from edgewise.agents.ping.callers import Limits
from edgewise.agents.ping.http import HttpEcho, listener_limits
from edgewise.agents.ping.udp import UdpEcho
from edgewise.errors import ReadableError
from edgewise.runtime.listening.listener import Listener, bind


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BadAddress(ReadableError):
    """An address on the command line that cannot be listened on."""


def parse_address(text: str) -> Address:
    """`host:port`, `[v6]:port` or `:port` (every address of the machine)."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadAddress(f"{text!r} is not an address to listen on: write it as 0.0.0.0:7777")
    return Address(host or "0.0.0.0", int(port))  # noqa: S104 - answering everybody is the point


class Listening(msgspec.Struct, frozen=True):
    """Where the agent really listens: a port of 0 has become a real one."""

    http: Address | None
    udp: Address | None


@contextlib.asynccontextmanager
async def ping_agent(
    http: Address | None, udp: Address | None, limits: Limits | None = None
) -> AsyncIterator[Listening]:
    """Serve until the block ends."""
    limits = limits or Limits()
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        http_at = udp_at = None
        if http is not None:
            handlers = HttpEcho(limits)
            try:
                bound = stack.enter_context(bind(http.host, http.port))
            except OSError as error:
                raise _taken(http, "TCP", error) from error
            listener = Listener(bound, handlers, listener_limits(limits))
            listener.start()
            stack.push_async_callback(handlers.shutdown, 1.0)
            stack.callback(listener.close)
            http_at = Address(http.host, listener.port)
        if udp is not None:
            try:
                transport, _ = await loop.create_datagram_endpoint(
                    lambda: UdpEcho(limits), local_addr=(udp.host, udp.port)
                )
            except OSError as error:
                raise _taken(udp, "UDP", error) from error
            stack.callback(transport.close)
            udp_at = Address(udp.host, transport.get_extra_info("sockname")[1])
        yield Listening(http_at, udp_at)


def _taken(address: Address, protocol: str, error: OSError) -> BadAddress:
    return BadAddress(
        f"cannot listen on {protocol} {address}: {error.strerror or error}; choose another address"
    )
