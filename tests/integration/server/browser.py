"""A real browser, driven by its own debugging protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Page:
    """One tab. What it complains about (scripts, policies) is in `complaints`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self.complaints: list[str] = []

    async def read(self) -> None:
        async for message in self._socket:
            content = message.json()
            if content.get("id") in self._answers:
                self._answers.pop(content["id"]).set_result(content)
            elif content.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(str(content["params"]))

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        sent: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            sent["sessionId"] = self._session
        await self._socket.send_json(sent)
        async with asyncio.timeout(20):
            found = await answer
        assert "error" not in found, found
        return dict(found["result"])

    async def open(self) -> None:
        target = await self.command("Target.createTarget", url="about:blank")
        attached = await self.command(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.command(f"{domain}.enable")

    async def go(self, url: str) -> None:
        await self.command("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = await self.command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")


@contextlib.asynccontextmanager
async def browser_page(folder: Path) -> AsyncIterator[Page]:
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no browser: apt-get install chromium-headless-shell")
    process = await asyncio.create_subprocess_exec(
        program,
        "--headless",
        "--remote-debugging-port=0",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        f"--user-data-dir={folder}",
        # Root has no sandbox of its own.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        "about:blank",
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # it is a family of processes, and goes as one
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"DevTools listening on " not in (line := await process.stderr.readline()):
                assert line, "the browser ended at once"
        address = line.decode().strip().rpartition(" ")[2]
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(address, max_msg_size=0) as socket,
        ):
            page = Page(socket)
            reading = asyncio.create_task(page.read())
            draining = asyncio.create_task(process.stderr.read())
            try:
                await page.open()
                yield page
            finally:
                reading.cancel()
                draining.cancel()
                await asyncio.wait({reading, draining})
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
