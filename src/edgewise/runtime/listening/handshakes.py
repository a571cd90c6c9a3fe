"""Whose TLS handshake is next.

A handshake costs some hundred times what it costs to ask for one, and nothing tells an honest
caller from one who will never answer. So a turn of the loop carries out one of them, and requests
that are under way get their turn in between. Addresses take turns: hundreds of callers from one of
them hold up one another, and nobody else. Of one address the newest goes first: who came before
has often given up, and in the order of arrival everybody would wait for as long as the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Handshakes:
    """`ask` for one, which then begins in its turn, or `forget` it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # The address whose turn is next goes first, and of its callers the newest goes last.
        self._asked: dict[str, dict[Callable[[], None], None]] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return sum(len(begins) for begins in self._asked.values())

    def ask(self, address: str, begin: Callable[[], None]) -> None:
        self._asked.setdefault(address, {})[begin] = None
        self._schedule()

    def forget(self, address: str, begin: Callable[[], None]) -> None:
        mine = self._asked.get(address, {})
        mine.pop(begin, None)
        if not mine:
            self._asked.pop(address, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if not self._asked:
            return
        address = next(iter(self._asked))
        mine = self._asked.pop(address)
        begin, _ = mine.popitem()
        if mine:
            self._asked[address] = mine
        if self._asked:
            self._schedule()
        begin()
