"""Questions and orders to a running Envoy, over its admin socket."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import msgspec

ANSWER_SECONDS = 5.0


class Stat(msgspec.Struct):
    name: str = ""
    value: int = 0


class Stats(msgspec.Struct):
    stats: list[Stat]


class EnvoyAdmin:
    """Envoy's admin interface. An Envoy that does not answer raises OSError."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def ready(self) -> bool:
        try:
            return (await self.ask("GET", "/ready"))[0] == 200
        except OSError:
            return False

    async def drain(self) -> None:
        """Tell load balancers that we are leaving, and clients to connect elsewhere."""
        await self.ask("POST", "/healthcheck/fail")
        await self.ask("POST", "/drain_listeners?graceful&skip_exit")

    async def connections(self) -> int:
        """How many connections clients have at this moment.

        Not `server.total_connections`: Envoy counts that once every few seconds only.
        """
        filter = r"^listener\..*\.downstream_cx_active$"
        _, body = await self.ask("GET", f"/stats?format=json&filter={filter}")
        return sum(
            stat.value
            for stat in msgspec.json.decode(body, type=Stats).stats
            if not stat.name.startswith("listener.admin.") and ".worker_" not in stat.name
        )

    async def figures(self) -> bytes:
        """Envoy's own metrics, as Prometheus reads them."""
        return (await self.ask("GET", "/stats/prometheus?usedonly"))[1]

    async def ask(self, method: str, path: str) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        connector = aiohttp.UnixConnector(path=str(self._socket))
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.request(method, f"http://envoy{path}", allow_redirects=False) as answer,
            ):
                return answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OSError(f"Envoy does not answer at {self._socket}: {error}") from error
