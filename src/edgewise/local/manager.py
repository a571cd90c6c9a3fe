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
from pathlib import Path

import edgewise
from edgewise.local import processes, progress
from edgewise.local.control_plane import control_plane
from edgewise.local.layout import Home
from edgewise.local.supervision import Supervisor, pause_after

NAME = "manager"
_STANDBY = Path(__file__).with_name("standby.py")


def start(home: Home) -> subprocess.Popen[bytes]:
    """A standby, which becomes the manager when there is none."""
    with (home.logs / "manager.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_STANDBY), str(home.path)],
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
        child = start(home)
        while child.poll() is None:  # noqa: ASYNC110 - a look twice a second is enough
            await asyncio.sleep(0.5)
        deaths += 1
        await asyncio.sleep(max(0.2, pause_after(deaths)))


async def until_going_down(home: Home) -> None:
    while home.exists() and not home.going_down.exists():  # noqa: ASYNC110 - a file says it
        await asyncio.sleep(0.2)


async def manage(home: Home) -> None:
    record = home.read()
    supervisor = Supervisor(home)
    duties = [asyncio.create_task(keep_standby(home))]
    duties += [
        asyncio.create_task(supervisor.keep(component)) for component in control_plane(home, record)
    ]
    leaving = asyncio.create_task(until_going_down(home))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, leaving.cancel)
    done, _ = await asyncio.wait([leaving, *duties], return_when=asyncio.FIRST_COMPLETED)
    for task in done - {leaving}:
        task.result()  # a duty only ends by failing; the standby then takes over


def main() -> None:
    home = Home(Path(sys.argv[1]))
    os.set_inheritable(int(sys.argv[2]), False)  # the lock is the manager's alone
    progress.note(home.progress, NAME, progress.STARTED)
    asyncio.run(manage(home))


if __name__ == "__main__":
    main()
