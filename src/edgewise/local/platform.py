"""Operator and gateway as programs of this machine, beside a local cluster.

The same commands that run in pods on a real cluster; here they need no image, and end with
whoever started them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import random
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp

from edgewise.local.clusters import Cluster
from edgewise.local.errors import StartFailed

LOOPBACK = "127.0.0.1"
_PR_SET_PDEATHSIG = 1


class Program:
    """One of the platform's programs, with its log in a file."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path, health: str) -> None:
        self.name = name
        self._arguments = arguments
        self._log = log
        self._health = health
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    async def start(self, *, within: float = 60.0) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "edgewise.cli",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )
        await self._until_ready(within)

    async def _until_ready(self, within: float) -> None:
        deadline = asyncio.get_running_loop().time() + within
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
            while True:
                if self._process is not None and self._process.returncode is not None:
                    raise StartFailed(f"{self.name} ended at once: {self._last_words()}")
                with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError):
                    async with http.get(f"{self._health}/readyz") as answer:
                        if answer.status == 200:
                            return
                if asyncio.get_running_loop().time() > deadline:
                    raise StartFailed(
                        f"{self.name} was not ready after {within:.0f} s: {self._last_words()}"
                    )
                await asyncio.sleep(0.02)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"

    async def stop(self) -> None:
        """Ask it to end; a program that does not is killed."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it at once, as a crash would."""
        await self._end(signal.SIGKILL)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(number)
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()


class Platform:
    def __init__(self, operator: Program, gateway: Program | None, public_url: str, health: str):
        self.operator = operator
        self.gateway = gateway
        self.public_url = public_url
        self.operator_url = health


@contextlib.asynccontextmanager
async def running_platform(cluster: Cluster, *, gateway: bool = True) -> AsyncIterator[Platform]:
    """The platform for as long as the block runs. The cluster must have the CRDs already."""
    with tempfile.TemporaryDirectory(prefix="edgewise-platform-") as name:
        folder = Path(name)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_urlsafe(32))
        http, control, health, webhook = _free_ports(4)
        public_url = f"http://{LOOPBACK}:{http}"
        health_url = f"http://{LOOPBACK}:{health}"
        control_url = f"http://{LOOPBACK}:{control}"
        kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
        operator = Program(
            "operator",
            [
                "operator",
                kubeconfig,
                f"--listen={LOOPBACK}:{health}",
                f"--webhook-url=https://{cluster.host_address}:{webhook}",
                f"--webhook-port={webhook}",
                f"--public-url={public_url}",
                f"--public-host={LOOPBACK}",
                *([f"--gateway={control_url}", f"--token-file={token}"] if gateway else []),
            ],
            folder / "operator.log",
            health_url,
        )
        entry = Program(
            "gateway",
            [
                "gateway",
                kubeconfig,
                f"--bind={LOOPBACK}",
                f"--http-port={http}",
                f"--control={LOOPBACK}:{control}",
                f"--token-file={token}",
                f"--run-dir={folder / 'run'}",
                "--workers=1",
            ],
            folder / "gateway.log",
            control_url,
        )
        programs = [operator, entry] if gateway else [operator]
        try:
            async with asyncio.TaskGroup() as starting:
                for program in programs:
                    starting.create_task(program.start())
            yield Platform(operator, entry if gateway else None, public_url, health_url)
        finally:
            for program in programs:
                await program.stop()


def _free_ports(count: int) -> list[int]:
    """Below the range of outgoing connections, which could take one before it is used.

    By chance, because another platform that starts at this moment looks for some as well.
    """
    found: list[int] = []
    for port in random.sample(range(18000, 20000), 2000):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise StartFailed("no ports are free between 18000 and 19999: end some of the programs there")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
