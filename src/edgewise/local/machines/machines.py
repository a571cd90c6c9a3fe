"""Machines made of namespaces: their first processes, and the cables between them.

The manager's side of real nodes. A machine is up when its first process runs and
it is cabled; whatever ends is made again, and only what is missing is made.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from edgewise.local import progress
from edgewise.local.component import CONTROL_PLANE, PLACE_PREFIX, Component
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, write_atomically
from edgewise.local.machines import cgroups
from edgewise.local.machines.node_components import holders
from edgewise.local.machines.processes import Process
from edgewise.local.machines.setup import (
    control_plane_script,
    holder_command,
    inside,
    node_script,
    place_script,
)
from edgewise.local.machines.supervision import Supervisor
from edgewise.local.network.cabling import CableError, cable_up, running_inits


class Machines:
    """All machines of one cluster."""

    def __init__(self, home: Home, record: ClusterRecord) -> None:
        self.home = home
        self.record = record
        self.inits: dict[str, Process] = {}
        self.cabled = {holder.name: asyncio.Event() for holder in holders(record)}
        self.cabling = asyncio.Lock()

    async def keep(self, supervisor: Supervisor, holder: Component) -> None:
        async def launcher() -> list[str]:
            self.cabled[holder.name].clear()
            return await asyncio.to_thread(prepare_machine, self.home, self.record, holder.name)

        async def begun(process: Process) -> None:
            self.inits[holder.name] = process
            await self.cable()

        await supervisor.keep(holder, launcher, begun)

    async def cable(self) -> None:
        """Lay whatever cable is missing; machines that are cabled may start their programs."""
        async with self.cabling:
            while True:
                try:
                    names = await asyncio.to_thread(cable_up, self.home, self.record)
                    break
                except CableError as error:  # most likely a machine that ended meanwhile
                    progress.note(self.home.progress, "network", progress.ENDED, str(error))
                    await asyncio.sleep(0.5)
            for name in names & self.inits.keys():
                self.cabled[name].set()

    async def inside(self, component: Component) -> list[str]:
        """The way into a component's machine, once that is up and has what it waits for."""
        name = component.inside
        while True:
            await self.cabled[name].wait()
            process = self.inits[name]
            if not process.alive:
                self.cabled[name].clear()
            elif os.path.exists(f"/proc/{process.pid}/root{component.after}"):  # noqa: ASYNC240
                return inside(process.pid, cgroups.entry_files(group_of(self.home, name)))
            await asyncio.sleep(0.02)

    async def beside(self) -> list[str]:
        """The way to a program of the host, once the host has its cable to the cluster."""
        await self.cabled[CONTROL_PLANE].wait()
        return []


def group_of(home: Home, machine: str) -> str:
    """The control group of a machine's own programs."""
    if follows_host(machine):
        return top_group_of(home, machine)
    return f"{top_group_of(home, machine)}/{cgroups.DAEMONS}"


def top_group_of(home: Home, machine: str) -> str:
    """The control group of everything in a machine, its pods too."""
    return f"{home.cgroup}/{machine.replace('/', '.')}"


def follows_host(machine: str) -> bool:
    """Whether it has the host's files rather than its own: it runs no containers."""
    return machine == CONTROL_PLANE or machine.startswith(PLACE_PREFIX)


def prepare_machine(home: Home, record: ClusterRecord, name: str) -> list[str]:
    """Groups and folders of a machine, and the command that makes it."""
    group = group_of(home, name)
    if name == CONTROL_PLANE:
        cgroups.create(group)
        script, path = control_plane_script(), home.config / "control-plane.sh"
    elif name.startswith(PLACE_PREFIX):
        cgroups.create(group)
        place = name.removeprefix(PLACE_PREFIX)
        script, path = place_script(place, home.place(place)), home.place(place) / "setup.sh"
    else:
        # Nothing of the machine runs: groups that are left are those of its former life.
        cgroups.remove(f"{home.cgroup}/{name}")
        cgroups.create(f"{home.cgroup}/{name}", cgroups.DAEMONS)
        folder = home.nodes / name
        for part in ("root", "lib", "log"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        programs = {str(Path(path).parent) for path in record.programs.values()}
        programs |= {str(Path(path).resolve().parent) for path in record.programs.values()}
        script = node_script(
            name=name,
            folder=folder,
            visible={str(home.path), *programs},
            mount_points=mount_points(),
            hierarchies=cgroups.hierarchies(),
            cgroup=f"{home.cgroup}/{name}",
        )
        path = folder / "setup.sh"
    write_atomically(path, script.encode())
    return holder_command(path, cgroups.entry_files(group), follow_host=follows_host(name))


def mount_points() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4].replace("\\040", " ") for line in lines]


def init_of(home: Home, machine: str, init: str) -> Process:
    """The running first process of a machine."""
    found = running_inits(home, init).get(machine)
    if found is None:
        raise LocalError(
            f"{machine} of cluster {home.name!r} is not running; "
            f"see `edgewise local status --name {home.name}`"
        )
    return found
