"""coturn and the sample's server, on loopback."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp.test_utils import TestServer
from webrtc_detector.ice import Turn, answer_lost_packets_quickly
from webrtc_detector.measure import Filming
from webrtc_detector.server import application
from webrtc_detector.settings import Settings, from_environment

from tests.integration.webrtc.coturn import Coturn

# Small and slow: what is shown does not need more, and other tests share the machine.
FILMING = Filming(seconds=1.5, width=320, height=180, rate=10)


@pytest.fixture(scope="session")
def coturn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coturn]:
    if shutil.which("turnserver") is None:
        pytest.skip("coturn is not installed (`apt-get install coturn`)")
    server = Coturn(tmp_path_factory.mktemp("coturn"))
    try:
        server.wait_until_up()
        yield server
    finally:
        server.stop()


@pytest.fixture(autouse=True, scope="session")
def quick_retries() -> None:
    answer_lost_packets_quickly()


def login(coturn: Coturn, client: str = "alice") -> Turn:
    issued = coturn.realm().credentials(client, now=time.time())
    return Turn(list(issued.urls), issued.username, issued.credential)


def settings(coturn: Coturn, **more: str) -> Settings:
    """A server that is relay-only too: loopback addresses are no ICE candidates."""
    own = login(coturn, "server")
    return from_environment(
        {
            "TURN_URLS": coturn.url,
            "TURN_USERNAME": own.username,
            "TURN_PASSWORD": own.credential,
            **more,
        }
    )


@pytest.fixture
async def detector(coturn: Coturn) -> AsyncIterator[TestServer]:
    server = TestServer(application(settings(coturn)))
    async with server:
        yield server
