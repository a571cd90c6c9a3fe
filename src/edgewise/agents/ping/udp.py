"""The UDP half: answers questions within limits, and keeps silent otherwise."""

from __future__ import annotations

import asyncio
from typing import cast

from prometheus_client import Counter

from edgewise.agents.ping.callers import Limits
from edgewise.agents.ping.echo import answer_to
from edgewise.runtime.budgets import Budgets
from edgewise.runtime.listening.callers import caller

DATAGRAMS = Counter("edgewise_ping_datagrams_total", "Datagrams, by what was done.", ["result"])


class UdpEcho(asyncio.DatagramProtocol):
    def __init__(self, limits: Limits) -> None:
        self._each = Budgets(limits.per_caller, limits.burst)
        self._all = Budgets(limits.altogether, max(1, int(limits.altogether)))
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio's own datagram transport is not declared as one before Python 3.12.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        DATAGRAMS.labels(self._handle(data, addr)).inc()

    def _handle(self, data: bytes, addr: tuple[str | int, ...]) -> str:
        answer = answer_to(data)
        if answer is None:
            return "not_a_question"
        # Port 0 cannot be answered; the system would complain at each attempt.
        if not addr[1] or self._transport is None or self._transport.is_closing():
            return "unanswerable"
        if self._each.spend(caller(str(addr[0]))) or self._all.spend(None):
            return "over_the_limit"
        self._transport.sendto(answer, addr)
        return "answered"

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 - asyncio's signature
        # An ICMP "unreachable" from somebody who has gone: nothing to do about it.
        DATAGRAMS.labels("refused_by_peer").inc()
