"""The manager of one cluster: keeps its programs running, knows nothing of its API.

    python -m edgewise.local.manager <cluster folder> <file descriptor of the lock>

There is one for each cluster, and a standby that takes its place when it dies.
Killing it stops nothing else: its successor finds the running programs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import edgewise
from edgewise.local import kept_platform, progress
from edgewise.local.component import Component
from edgewise.local.control_plane.programs import control_plane
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.machines import processes
from edgewise.local.machines.log_size import trim
from edgewise.local.machines.machines import Machines
from edgewise.local.machines.node_components import (
    holders,
    node_components,
    place_components,
)
from edgewise.local.machines.supervision import Launcher, Supervisor, directly, pause_after
from edgewise.local.network.latency import relays
from edgewise.local.network.policies.component import enforcers

NAME = "manager"
_STANDBY = Path(__file__).with_name("standby.py")


def ensure(home: Home) -> bool:
    """Start a manager if there is none, which does not depend on this process; whether it did."""
    if any(process.component == NAME for process in processes.of_cluster(home.path)):
        return False
    start_standby(home, detached=True).wait(timeout=20)
    return True


def is_manager(process: processes.Process) -> bool:
    """Rather than the standby, which carries the same mark until it becomes one."""
    return process.component == NAME and "-m" in process.argv


def runs(home: Home) -> bool:
    return any(map(is_manager, processes.of_cluster(home.path)))


def start_standby(home: Home, *, detached: bool = False) -> subprocess.Popen[bytes]:
    """It becomes the manager when there is none."""
    command = [sys.executable, "-I", "-S", str(_STANDBY), str(home.path)]
    with (home.logs / "manager.log").open("ab") as output:
        return subprocess.Popen(
            [*command, "detached"] if detached else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=processes.environment(home.path, NAME)
            | {"PYTHONPATH": str(Path(edgewise.__file__).parent.parent)},
            start_new_session=True,
        )


async def keep_standby(home: Home) -> None:
    deaths = 0
    while True:
        child = start_standby(home)
        while child.poll() is None:  # noqa: ASYNC110 - a look twice a second is enough
            await asyncio.sleep(0.5)
        deaths += 1
        await asyncio.sleep(max(0.2, pause_after(deaths)))


async def keep_wanted(
    supervisor: Supervisor,
    wanted: Callable[[], Iterable[Component]],
    launcher: Callable[[Component], Launcher],
) -> None:
    """Programs that come and go while the cluster runs, such as relays and the platform."""
    kept: dict[Component, asyncio.Task[None]] = {}
    while True:
        now = set(wanted())
        for gone in kept.keys() - now:
            kept.pop(gone).cancel()
            await asyncio.to_thread(supervisor.stop, gone)
        for new in now - kept.keys():
            kept[new] = asyncio.create_task(supervisor.keep(new, launcher(new)))
        await asyncio.sleep(0.5)


async def keep_logs_small(home: Home) -> None:
    while True:
        await asyncio.to_thread(trim, home.logs)
        await asyncio.sleep(30)


async def until_going_down(home: Home) -> None:
    while home.exists() and not home.going_down.exists():  # noqa: ASYNC110 - a file says it
        await asyncio.sleep(0.2)


def components(home: Home, record: ClusterRecord) -> list[Component]:
    """Every program of the cluster, in the order in which they are started."""
    found = control_plane(home, record)
    for number in range(1, record.spec.nodes + 1):
        found += node_components(home, record, number)
    for place in record.spec.places:
        found += place_components(home, record, place)
    return found


def duties(home: Home, record: ClusterRecord) -> list[Coroutine[Any, Any, None]]:
    """Everything that is to be kept running."""
    supervisor = Supervisor(home)
    programs = components(home, record)
    platform = partial(kept_platform.components, home)
    always = [keep_standby(home), keep_logs_small(home)]
    if not record.spec.real:
        return [
            *always,
            keep_wanted(supervisor, platform, lambda _: directly),
            *(supervisor.keep(program) for program in programs),
        ]
    machines = Machines(home, record)
    return [
        *always,
        keep_wanted(
            supervisor,
            platform,
            lambda part: partial(machines.inside, part) if part.inside else directly,
        ),
        keep_wanted(
            supervisor,
            partial(relays, home, record),
            lambda relay: partial(machines.inside, relay),
        ),
        *(machines.keep(supervisor, holder) for holder in holders(record)),
        *(supervisor.keep(program, partial(machines.inside, program)) for program in programs),
        *(supervisor.keep(each, machines.beside) for each in enforcers(home, record)),
    ]


async def manage(home: Home) -> None:
    tasks = [asyncio.create_task(duty) for duty in duties(home, home.read())]
    leaving = asyncio.create_task(until_going_down(home))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.cancel)
    done, _ = await asyncio.wait([leaving, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in done - {leaving}:
        task.result()  # a duty only ends by failing; the standby then takes over


def until_predecessor_is_gone(home: Home, seconds: float = 2.0) -> None:
    """A killed manager may have forked a program that has not begun yet, and looks like it."""

    def forked() -> bool:
        return any(
            is_manager(process) and process.pid != os.getpid()
            for process in processes.of_cluster(home.path)
        )

    deadline = time.monotonic() + seconds
    while forked() and time.monotonic() < deadline:
        time.sleep(0.01)


def main() -> None:
    home = Home(Path(sys.argv[1]))
    os.set_inheritable(int(sys.argv[2]), False)  # the lock is the manager's alone
    until_predecessor_is_gone(home)
    progress.note(home.progress, NAME, progress.STARTED)
    try:
        asyncio.run(manage(home))
    except Exception as error:
        progress.note(home.progress, NAME, progress.ENDED, f"{type(error).__name__}: {error}")
        time.sleep(1)  # the standby goes on at once, and might fail at once
        raise


if __name__ == "__main__":
    main()
