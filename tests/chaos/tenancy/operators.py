"""Operators of tenancy in this process, with a client that a test chooses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from edgewise.operator import Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.tenancy.domain import TENANCY
from edgewise.testing.ports import free_port


@contextlib.asynccontextmanager
async def operator(client: Any) -> AsyncIterator[asyncio.Task[None]]:
    """One that asks for no lease."""
    listen = Listen(port=free_port())
    options = Options(listen=listen, leader_election=False, gateways=())
    running = asyncio.create_task(run_operator(client, options, (TENANCY,)))
    try:
        yield running
        assert not running.done(), f"the operator ended by itself: {running}"
    finally:
        running.cancel()
        await asyncio.wait({running})
