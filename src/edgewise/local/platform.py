"""Operator and gateway as programs of this machine, beside a local cluster.

The same commands that run in pods on a real cluster; here they need no image, and end with
the program that started them, or with the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import aiohttp
import msgspec

from edgewise.local import registry
from edgewise.local.clusters import LocalCluster
from edgewise.local.component import log_file
from edgewise.local.errors import StartFailed
from edgewise.local.machines import processes
from edgewise.local.network.commands import OPERATOR_PORTS
from edgewise.local.platform_site import (
    GATEWAY,
    LOOPBACK,
    OPERATOR,
    PING,
    Site,
    python_command,
)

_PR_SET_PDEATHSIG = 1


class Program:
    """One of the platform's programs, with its log among those of the cluster.

    It carries the cluster's mark, and so does what it starts: an Envoy that outlives its agent
    still goes with the cluster.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        name: str,
        arguments: Sequence[str],
        health: str,
        *,
        entry: Sequence[str] = (),
    ) -> None:
        """`health` is a URL that answers when the program is ready; `entry` leads to where it
        runs (see `LocalCluster.network_entry`)."""
        self.name = name
        self._entry = entry
        self._arguments = arguments
        self._marks = processes.marks(cluster.home.path, name)
        self._log = log_file(cluster.home.logs, name)
        self._health = health
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def ended(self) -> bool:
        """By itself: nobody stopped it."""
        return self._process is not None and self._process.returncode is not None

    async def start(self, *, within: float = 60.0) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._entry,
                *python_command(sys.executable, [*self._arguments]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | self._marks,
                # Ctrl-C is for the program that started it. An agent that is told to end by
                # both ends at once, in the middle of ending its Envoy.
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        await self._until_ready(within)

    async def _until_ready(self, within: float) -> None:
        deadline = asyncio.get_running_loop().time() + within
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
            while True:
                if self.ended:
                    raise StartFailed(f"{self.name} ended at once: {self.last_words()}")
                if await answers(http, self._health):
                    return
                if asyncio.get_running_loop().time() > deadline:
                    raise StartFailed(
                        f"{self.name} was not ready after {within:.0f} s: {self.last_words()}"
                    )
                await asyncio.sleep(0.02)

    def last_words(self) -> str:
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


async def answers(http: aiohttp.ClientSession, url: str) -> bool:
    """Whether a program says at its health URL that it is ready."""
    try:
        async with http.get(url, allow_redirects=False) as answer:
            return answer.status < 300
    except (OSError, aiohttp.ClientError, TimeoutError):
        return False


async def not_ready(site: Site, names: Iterable[str], patience: float = 2.0) -> set[str]:
    """Those of the platform's programs that do not say that they are ready."""
    asked = list(names)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=patience)) as http:
        told = await asyncio.gather(*(answers(http, site.health_of(name)) for name in asked))
    return {name for name, ready in zip(asked, told, strict=True) if not ready}


class Platform(msgspec.Struct, frozen=True):
    """What runs, and where it is found."""

    operator: Program
    gateway: Program | None
    public_url: str
    operator_url: str
    # Where the gateway's agent tells its metrics; empty without one.
    gateway_url: str = ""
    # host:port, the same for HTTP and UDP; empty where nobody answers.
    ping: str = ""


@contextlib.asynccontextmanager
async def running_platform(
    cluster: LocalCluster, *, gateway: bool = True, inside: bool = False
) -> AsyncIterator[Platform]:
    """The platform for as long as the block runs. The cluster must have the CRDs already.

    `inside` puts it into the cluster's own network, with a ping agent beside it: whoever wants
    to reach it goes the same way as to the cluster, and shares its latency and its fate.
    """
    folder = registry.new_scratch(cluster.home)
    try:
        programs, platform = _programs(cluster, folder, gateway=gateway, inside=inside)
        try:
            async with asyncio.TaskGroup() as starting:
                for program in programs:
                    starting.create_task(program.start())
            try:
                yield platform
            except Exception as error:
                # Whatever failed in the block, this is why.
                if dead := [program for program in programs if program.ended]:
                    raise StartFailed(
                        f"{dead[0].name} ended by itself: {dead[0].last_words()}"
                    ) from error
                raise
        finally:
            await asyncio.gather(*(program.stop() for program in programs))
    finally:
        registry.remove_scratch(folder)


def new_site(cluster: LocalCluster, *, inside: bool = False) -> Site:
    http, control, webhook, echo, health = free_ports(5)
    if not inside:
        (health,) = free_ports(1, *OPERATOR_PORTS)
    return Site(
        host=cluster.own_address if inside else LOOPBACK,
        webhook_host=cluster.own_address if inside else cluster.host_address,
        http=http,
        control=control,
        health=health,
        webhook=webhook,
        echo=echo,
        seen_by_pods=cluster.own_address,
    )


def _programs(
    cluster: LocalCluster, folder: Path, *, gateway: bool, inside: bool
) -> tuple[list[Program], Platform]:
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_urlsafe(32))
    site = new_site(cluster, inside=inside)
    entry = cluster.network_entry() if inside else []

    def program(name: str, arguments: list[str]) -> Program:
        return Program(cluster, name, arguments, site.health_of(name), entry=entry)

    kubeconfig = cluster.kubeconfig
    operator = program(
        OPERATOR, site.operator(cluster.home.operator_kubeconfig, token if gateway else None)
    )
    envoy = program(GATEWAY, site.gateway(kubeconfig, token, folder / "run"))
    ping = program(PING, site.echo_agent())
    platform = Platform(
        operator=operator,
        gateway=envoy if gateway else None,
        public_url=site.public_url,
        operator_url=site.operator_url,
        gateway_url=site.control_url if gateway else "",
        ping=site.ping if inside else "",
    )
    return [operator, *([envoy] if gateway else []), *([ping] if inside else [])], platform


def free_ports(count: int, first: int = 18000, last: int = 19999) -> list[int]:
    """Below the range of outgoing connections, which could take one before it is used.

    By chance, because another platform that starts at this moment looks for some as well.
    """
    found: list[int] = []
    for port in random.sample(range(first, last + 1), last + 1 - first):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise StartFailed(f"no ports are free from {first} to {last}: end some of the programs there")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
