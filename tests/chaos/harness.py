"""Operators that are killed, for any domain: between any two writes, and by the kernel in a storm.

A domain's own tests say what people do, and what must hold in the end. `killed_at_write` runs the
operator of one Domain in this process, cut off from the API server before or after one of its
writes, and a new one after it. `operators` and `rage` run it as real processes and kill these.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from edgewise.api.installation import install
from edgewise.domain import Domain
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, Unreachable
from edgewise.operator import Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from tests.integration.conftest import ApiServer

WRITES = frozenset(("create", "patch", "apply", "replace", "request", "delete", "evict"))
PATIENCE = 30.0
# Which calls are counted: the name of the method, and what it was given.
Counts = Callable[[str, tuple[Any, ...]], bool]


def _every_write(name: str, args: tuple[Any, ...]) -> bool:
    return name != "request" or args[0] != "GET"


class Trial(msgspec.Struct, frozen=True):
    """What people do in a namespace, and what must hold in the end (else it raises)."""

    domain: Domain
    play: Callable[[Client, str], Awaitable[None]]
    well: Callable[[Client, str], Awaitable[None]]
    # Who the operator is, where that matters; else it is the client of the test.
    operator: Client | None = None
    flags: Mapping[str, str | bool] = {}


class CutClient:
    """The client of an operator that dies at one of its writes: from then on nothing of it is
    heard, which is all that the API server knows of a process that was killed."""

    def __init__(
        self,
        client: Client,
        cut_at: int | None = None,
        *,
        after: bool = False,
        counts: Counts | None = None,
    ) -> None:
        self._client = client
        self._cut_at = cut_at
        self._after = after
        self._counts = counts or _every_write
        self.writes = 0
        self.dead = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in WRITES:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            counted = self._counts(name, args)
            self.writes += counted
            cut = counted and self.writes == self._cut_at
            if cut and not self._after:
                self.dead.set()
            if self.dead.is_set():
                raise Unreachable("this operator was killed")
            answer = await found(*args, **kwargs)
            if cut:
                self.dead.set()
            if self.dead.is_set():
                raise Unreachable("this operator was killed")
            return answer

        return call


@contextlib.asynccontextmanager
async def killed_at_write(
    domain: Domain,
    client: Client,
    namespace: str,
    cut_at: int | None,
    *,
    after: bool,
    counts: Counts | None = None,
    flags: Mapping[str, str | bool] | None = None,
) -> AsyncIterator[CutClient]:
    """The operator of a domain; when it dies, another one takes its place."""
    first = CutClient(client, cut_at, after=after, counts=counts)

    async def one_after_the_other() -> None:
        running = asyncio.create_task(_operator(first, domain, namespace, flags or {}))
        dead = asyncio.create_task(first.dead.wait())
        try:
            await asyncio.wait({running, dead}, return_when=asyncio.FIRST_COMPLETED)
            assert first.dead.is_set(), f"the operator ended by itself: {running}"
        finally:
            for each in (running, dead):
                each.cancel()
            await asyncio.wait({running, dead})
        await _operator(CutClient(client), domain, namespace, flags or {})

    crew = asyncio.create_task(one_after_the_other())
    try:
        yield first
        assert not crew.done(), crew
    finally:
        crew.cancel()
        await asyncio.wait({crew})


async def _operator(
    client: Any, domain: Domain, namespace: str, flags: Mapping[str, str | bool]
) -> None:
    options = Options(
        namespace=namespace,
        listen=Listen(port=free_port()),
        leader_election=False,
        gateways=(),
        flags=dict(flags),
    )
    await run_operator(client, options, (domain,))


async def survive(
    trial: Trial, client: Client, namespace: str, cut_at: int | None = None, *, after: bool = False
) -> CutClient:
    """Play it to its end, and wait until all is well."""
    await install(client, trial.domain.kinds)

    async def well() -> None:
        await trial.well(client, namespace)

    operator = trial.operator or client
    async with killed_at_write(
        trial.domain, operator, namespace, cut_at, after=after, flags=trial.flags
    ) as first:
        await trial.play(client, namespace)
        await eventually(well, within=PATIENCE, every=0.1, not_yet=(KubeError,))
    return first


# Storms -----------------------------------------------------------------------------------


class OperatorProcess:
    """`edgewise operator`, without an election; started again whenever it was killed."""

    def __init__(
        self, kubeconfig: Path, domain: Domain, log: Path, flags: Sequence[str] = ()
    ) -> None:
        self._kubeconfig = kubeconfig
        self._domain = domain.name
        self._flags = flags
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self.kills = 0

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "edgewise.cli",
                "operator",
                "--no-leader-election",
                f"--domains={self._domain}",
                f"--kubeconfig={self._kubeconfig}",
                f"--listen=127.0.0.1:{free_port()}",
                *self._flags,
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        """As the kernel does when memory runs out: in the middle of anything."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
            self.kills += 1


@contextlib.asynccontextmanager
async def operators(
    api_server: ApiServer,
    domain: Domain,
    directory: Path,
    *,
    kubeconfig: Path | None = None,
    flags: Sequence[str] = (),
) -> AsyncIterator[list[OperatorProcess]]:
    """Two of them, which know nothing of each other; who they are, their kubeconfig says."""
    access = kubeconfig or api_server.kubeconfig
    logs = [directory / f"operator-{number}.log" for number in range(2)]
    started = [OperatorProcess(access, domain, log, flags) for log in logs]
    try:
        for each in started:
            await each.start()
        yield started
    finally:
        for each in started:
            await each.kill()


async def rage(
    act: Callable[[], Awaitable[None]],
    crew: list[OperatorProcess],
    api_server: ApiServer,
    chance: random.Random,
    *,
    seconds: float,
    restarts: bool,
) -> None:
    """People act, operators are killed, and half-way etcd or the API server too."""
    end = time.monotonic() + seconds
    restart_at = time.monotonic() + seconds / 2 if restarts else float("inf")
    next_kill = time.monotonic() + 3.0
    while time.monotonic() < end:
        await act()
        await asyncio.sleep(chance.random() * 0.1)
        if time.monotonic() >= next_kill:
            victim = chance.choice(crew)
            await victim.kill()
            await victim.start()
            next_kill = time.monotonic() + 2.0 + 3.0 * chance.random()
        if time.monotonic() >= restart_at:
            restart_at = float("inf")
            restart = chance.choice((api_server.restart_api_server, api_server.restart_etcd))
            await asyncio.to_thread(restart, kill=True)
