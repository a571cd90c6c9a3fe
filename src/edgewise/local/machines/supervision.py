"""Keeps programs running: starts them, finds those that run already, starts them again.

A component that ends is started again at once the first time, then after a pause
that doubles while it keeps ending early.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from edgewise.local import progress
from edgewise.local.component import Component, log_file
from edgewise.local.errors import LocalError
from edgewise.local.layout import Home
from edgewise.local.machines import processes
from edgewise.local.machines.processes import Process

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
# Whoever lived this long has earned a fresh start.
SETTLED = 15.0
# Programs on the way to becoming the component, never the component itself.
LAUNCHERS = {"sh", "nsenter", "unshare"}


def pause_after(deaths: int) -> float:
    """Seconds to wait after so many early deaths in a row."""
    return 0.0 if deaths <= 1 else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (deaths - 2))


# What stands before a command; waits until the command can be started.
Launcher = Callable[[], Awaitable[list[str]]]


async def directly() -> list[str]:
    return []


class Supervisor:
    """Starts and restarts the components of one cluster; nobody else does."""

    def __init__(self, home: Home) -> None:
        self.home = home
        # What a former manager left running, looked up once: after that, all is started here.
        self.inherited = processes.of_cluster(home.path)

    async def keep(
        self,
        component: Component,
        launcher: Launcher = directly,
        begun: Callable[[Process], Awaitable[None]] | None = None,
    ) -> None:
        """Never returns. `begun` is called with each process that is started or found."""
        process = await self.adopted(component)
        child: subprocess.Popen[bytes] | None = None
        deaths = 0
        while True:
            since, why = time.monotonic(), ""
            try:
                if process is None:
                    child = self.start(component, await launcher())
                    process = await found(component, child)
                if process is not None:
                    if begun is not None:
                        await begun(process)
                    await gone(process)
                if child is not None:
                    await reaped(child)
            except (OSError, LocalError) as error:
                why = str(error)  # it could not even be started
            process = child = None
            deaths = 1 if time.monotonic() - since > SETTLED else deaths + 1
            self.note(component, progress.ENDED, why or last_words(self.home.logs, component.name))
            await asyncio.sleep(pause_after(deaths))

    async def adopted(self, component: Component) -> Process | None:
        """The component that runs already.

        What was only about to become it is ended, and so is one with other flags.
        """
        mine = [process for process in self.inherited if process.component == component.name]
        for process in mine:
            if process.argv == component.argv:
                self.note(component, progress.ADOPTED)
                return process
        programs = {*LAUNCHERS, os.path.basename(component.argv[0])}
        wrong = [p for p in mine if os.path.basename(p.argv[0]) in programs]
        if wrong:
            await asyncio.to_thread(
                processes.kill_all, lambda: [process for process in wrong if process.alive]
            )
        return None

    def stop(self, component: Component) -> None:
        """End what `keep` kept, after that was cancelled."""
        processes.kill_all(
            lambda: [
                process
                for process in processes.of_cluster(self.home.path)
                if process.component == component.name
            ]
        )

    def start(self, component: Component, launcher: list[str]) -> subprocess.Popen[bytes]:
        log = log_file(self.home.logs, component.name)
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*launcher, *component.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=processes.environment(self.home.path, component.name),
                start_new_session=True,
            )
        self.note(component, progress.STARTED)
        return child

    def note(self, component: Component, state: str, detail: str = "") -> None:
        progress.note(self.home.progress, component.name, state, detail)


async def found(component: Component, child: subprocess.Popen[bytes]) -> Process | None:
    """The process itself, once the launcher has become or started it."""
    while child.poll() is None:
        for pid in (child.pid, *processes.children(child.pid)):
            process = processes.look(pid)
            if process is not None and process.argv[0] == component.argv[0]:
                return process
        await asyncio.sleep(0.01)
    return None


async def gone(process: Process) -> None:
    """Until the process has ended, whoever its parent is."""
    if not sys.platform.startswith("linux"):
        while process.alive:  # noqa: ASYNC110 - nothing there tells when it ends
            await asyncio.sleep(0.25)
        return
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        if process.alive:
            await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def reaped(child: subprocess.Popen[bytes]) -> None:
    while child.poll() is None:  # noqa: ASYNC110 - it has ended already, or is about to
        await asyncio.sleep(0.01)


def last_words(logs: Path, component: str) -> str:
    """The line of its log that most likely says why a component ended."""
    try:
        with log_file(logs, component).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    lines = [line.strip() for line in lines if line.strip()]
    telling = [line for line in lines if "rror" in line or "fatal" in line or "panic" in line]
    return (telling or lines or [""])[-1][:400]
