"""A gateway with its Envoy, and pods to lead to.

Every module of tests has one event loop, so that an Envoy can serve several tests.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from edgewise.testing.gateway_rig import LOOPBACK, Gateway, Pod, settings_for_test


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """Not pytest's own: the names of its directories are too long for a socket."""
    path = Path(tempfile.mkdtemp(prefix="edgewise-gw-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def run_dir() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@contextlib.asynccontextmanager
async def running(
    run_dir: Path, *, drain_seconds: float = 1.0, **settings: object
) -> AsyncIterator[Gateway]:
    gateway = Gateway(run_dir, settings_for_test(**settings), drain_seconds)
    await gateway.start()
    try:
        await gateway.ready()
        yield gateway
    finally:
        await gateway.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(run_dir: Path) -> AsyncIterator[Gateway]:
    """A gateway for one test."""
    async with running(run_dir) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared_gateway() -> AsyncIterator[Gateway]:
    """A gateway for tests that leave it as they found it."""
    with short_directory() as run_dir:
        async with running(run_dir) as gateway:
            yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def pods() -> AsyncIterator[Callable[..., Awaitable[Pod]]]:
    async with contextlib.AsyncExitStack() as stack:

        async def make(name: str, address: str = LOOPBACK) -> Pod:
            pod = await Pod(name, address).start()
            stack.push_async_callback(pod.stop)
            return pod

        yield make


@pytest_asyncio.fixture(loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session
