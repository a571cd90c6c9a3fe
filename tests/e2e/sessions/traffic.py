"""What clients send, and what they hear."""

from __future__ import annotations

import asyncio
import contextlib


async def ask_by_udp(host: str, port: int, said: bytes) -> bytes:
    """Datagrams may be lost, so it asks until it hears."""
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Listener(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            if not heard.done():
                heard.set_result(data)

    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        Listener, remote_addr=(host, port)
    )
    try:
        async with asyncio.timeout(10):
            while True:
                transport.sendto(said)
                with contextlib.suppress(TimeoutError):
                    return await asyncio.wait_for(asyncio.shield(heard), 0.5)
    finally:
        transport.close()
