"""The floor of `bench runtime`: a client with no runtime around it.

    python -m edgewise.bench.runtime.bare_patcher KUBECONFIG CONTEXT TOKEN_FILE NAMESPACE RATE COUNT

It lists everything once, says so, waits for a line on standard input, patches so many
statuses at that rate, and prints how long each took.
"""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import uvloop

from edgewise.bench.pacing import at_rate
from edgewise.bench.runtime.account import access_of
from edgewise.bench.runtime.copies import Copy
from edgewise.bench.runtime.copy_controller import RECONCILED, say
from edgewise.kube.client import Client
from edgewise.kube.config import Access


async def main(access: Access, namespace: str, rate: float, count: int) -> None:
    async with Client(access) as client:
        copies = (await client.list(Copy, namespace)).items
        say(RECONCILED)
        await asyncio.to_thread(sys.stdin.readline)
        latencies: list[float] = []

        async def patch(number: int) -> None:
            started = time.perf_counter()
            await client.patch(
                Copy,
                copies[number % len(copies)].metadata.name,
                namespace,
                body={"status": {"value": f"floor-{number}"}},
                subresource="status",
            )
            latencies.append(time.perf_counter() - started)

        await at_rate(rate, count, patch)
        say(msgspec.json.encode(latencies).decode())
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    _, config, chosen, token, space, pace, number = sys.argv
    uvloop.run(main(access_of(config, chosen, token), space, float(pace), int(number)))
