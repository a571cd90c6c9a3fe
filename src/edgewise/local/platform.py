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
import msgspec

from edgewise.local.clusters import Cluster
from edgewise.local.errors import StartFailed

LOOPBACK = "127.0.0.1"
_PR_SET_PDEATHSIG = 1


class Program:
    """One of the platform's programs, with its log in a file."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        health: str,
        *,
        entry: Sequence[str] = (),
    ) -> None:
        """`health` is a URL that answers when the program is ready; `entry` leads to where it
        runs (see `Cluster.network_entry`)."""
        self.name = name
        self._entry = entry
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
                *self._entry,
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
                    async with http.get(self._health) as answer:
                        if answer.status < 300:
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


class Platform(msgspec.Struct, frozen=True):
    """What runs, and where it is found."""

    operator: Program
    gateway: Program | None
    public_url: str
    operator_url: str
    # host:port, the same for HTTP and UDP; empty where nobody answers.
    ping: str = ""


@contextlib.asynccontextmanager
async def running_platform(
    cluster: Cluster, *, gateway: bool = True, inside: bool = False
) -> AsyncIterator[Platform]:
    """The platform for as long as the block runs. The cluster must have the CRDs already.

    `inside` puts it into the cluster's own network, with a ping agent beside it: whoever wants
    to reach it goes the same way as to the cluster, and shares its latency and its fate.
    """
    with tempfile.TemporaryDirectory(prefix="edgewise-platform-") as name:
        programs, platform = _programs(cluster, Path(name), gateway=gateway, inside=inside)
        try:
            async with asyncio.TaskGroup() as starting:
                for program in programs:
                    starting.create_task(program.start())
            yield platform
        finally:
            await asyncio.gather(*(program.stop() for program in programs))


def _programs(
    cluster: Cluster, folder: Path, *, gateway: bool, inside: bool
) -> tuple[list[Program], Platform]:
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_urlsafe(32))
    entry = cluster.network_entry() if inside else []
    host = cluster.own_address if inside else LOOPBACK
    http, control, health, webhook, echo = free_ports(5)
    webhook_host = host if inside else cluster.host_address
    public_url = f"http://{host}:{http}"
    health_url = f"http://{host}:{health}"
    control_url = f"http://{host}:{control}"
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    operator = Program(
        "operator",
        [
            "operator",
            kubeconfig,
            f"--listen={host}:{health}",
            f"--webhook-url=https://{webhook_host}:{webhook}",
            f"--webhook-port={webhook}",
            f"--public-url={public_url}",
            f"--public-host={host}",
            *([f"--gateway={control_url}", f"--token-file={token}"] if gateway else []),
        ],
        folder / "operator.log",
        f"{health_url}/readyz",
        entry=entry,
    )
    envoy = Program(
        "gateway",
        [
            "gateway",
            kubeconfig,
            f"--bind={host}",
            f"--http-port={http}",
            f"--control={host}:{control}",
            f"--token-file={token}",
            f"--run-dir={folder / 'run'}",
            "--workers=1",
        ],
        folder / "gateway.log",
        f"{control_url}/readyz",
        entry=entry,
    )
    ping = Program(
        "ping",
        ["ping", f"--http={host}:{echo}", f"--udp={host}:{echo}"],
        folder / "ping.log",
        f"http://{host}:{echo}/ping",
        entry=entry,
    )
    platform = Platform(
        operator=operator,
        gateway=envoy if gateway else None,
        public_url=public_url,
        operator_url=health_url,
        ping=f"{host}:{echo}" if inside else "",
    )
    return [operator, *([envoy] if gateway else []), *([ping] if inside else [])], platform


def free_ports(count: int) -> list[int]:
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
