"""Operators of tenancy in this process, with a client that a test chooses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from edgewise.kube.errors import KubeError
from edgewise.operator import Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.tenancy.domain import TENANCY
from edgewise.testing.ports import free_port


@contextlib.asynccontextmanager
async def operator(client: Any) -> AsyncIterator[asyncio.Task[None]]:
    """One that asks for no lease."""
    running = _started(client, free_port())
    try:
        yield running
        assert not running.done(), f"the operator ended by itself: {running}"
    finally:
        running.cancel()
        await asyncio.wait({running})


async def life(client: Any, seconds: float) -> None:
    """Of an operator that the kubelet keeps: it may end while it starts, since that meets faults,
    too, and is started again then. One that has begun does not end by itself."""
    port = free_port()
    running, begun = _started(client, port), asyncio.create_task(_listens(port))
    try:
        await asyncio.wait({running}, timeout=seconds)
        if not running.done():
            return
        meets_a_fault = isinstance(running.exception(), KubeError) and not begun.done()
        assert meets_a_fault, f"the operator ended by itself: {running}"
    finally:
        begun.cancel()
        running.cancel()
        await asyncio.wait({running, begun})


def _started(client: Any, port: int) -> asyncio.Task[None]:
    options = Options(listen=Listen(port=port), leader_election=False, gateways=())
    return asyncio.create_task(run_operator(client, options, (TENANCY,)))


async def _listens(port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.01)
