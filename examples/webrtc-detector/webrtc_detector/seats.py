"""Who is served: so many clients at once, each with one connection."""

from __future__ import annotations

import asyncio
import logging

from webrtc_detector.ice import Turn
from webrtc_detector.peer import Peer
from webrtc_detector.watching import Detection

log = logging.getLogger(__name__)


class Full(Exception):
    """All seats are taken by other clients."""


class Seats:
    def __init__(self, count: int, detection: Detection) -> None:
        self.count = count
        self._detection = detection
        self._taken: dict[str, Peer] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        # Two offers of one client at once: the later one must find the earlier one.
        self._one_at_a_time = asyncio.Lock()

    @property
    def clients(self) -> dict[str, str]:
        """The state of each client's connection."""
        return {client: peer.state for client, peer in self._taken.items()}

    async def take(self, client: str, sdp: str, turn: Turn | None) -> str:
        """Connect a client and return the answer to its offer.

        A client that comes again has lost its connection: the new one replaces the old one.
        """
        async with self._one_at_a_time:
            if client not in self._taken and len(self._taken) >= self.count:
                raise Full(f"all {self.count} seats are taken; try again when a client has left")
            await self._release(client)
            peer = Peer(client, turn, self._detection, self._on_end)
            self._taken[client] = peer
        try:
            return await peer.answer(sdp)
        except BaseException:
            self._on_end(peer)
            raise

    async def reset(self) -> int:
        """Send everybody away, as for a new client of a reused pod; how many there were."""
        async with self._one_at_a_time:
            clients = list(self._taken)
            for client in clients:
                await self._release(client)
            await asyncio.gather(*self._leaving)
        return len(clients)

    async def _release(self, client: str) -> None:
        peer = self._taken.pop(client, None)
        if peer is not None:
            await peer.close()

    def _on_end(self, peer: Peer) -> None:
        if self._taken.get(peer.client) is peer:
            del self._taken[peer.client]
            leaving = asyncio.create_task(peer.close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
