"""Machines made of namespaces: their first processes, and the cables between them.

The manager's side of real nodes. A machine is up when its first process runs and
it is cabled; whatever ends is made again, and only what is missing is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

from edgewise.local import cgroups, network, processes
from edgewise.local.component import CONTROL_PLANE, Component
from edgewise.local.connections import peers
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, write_atomically
from edgewise.local.machine_setup import (
    control_plane_script,
    holder_command,
    inside,
    node_script,
)
from edgewise.local.processes import Process
from edgewise.local.supervision import Supervisor

_COMMAND_SECONDS = 20


class Machines:
    """All machines of one cluster."""

    def __init__(self, home: Home, record: ClusterRecord) -> None:
        self.home = home
        self.record = record
        self.inits: dict[str, Process] = {}
        self.cabled = {name: asyncio.Event() for name in (CONTROL_PLANE, *record.spec.node_names)}
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
            alive = {name: process for name, process in self.inits.items() if process.alive}
            if CONTROL_PLANE not in alive:
                return
            pids = {name: process.pid for name, process in alive.items()}
            with contextlib.suppress(CableError):  # a machine ended meanwhile, and comes again
                await asyncio.to_thread(cable_up, self.home, self.record, pids)
                for name in alive:
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


class CableError(LocalError):
    """A cable could not be laid."""


def group_of(home: Home, machine: str) -> str:
    """The control group of a machine's own programs."""
    if machine == CONTROL_PLANE:
        return f"{home.cgroup}/{machine}"
    return f"{home.cgroup}/{machine}/{cgroups.DAEMONS}"


def prepare_machine(home: Home, record: ClusterRecord, name: str) -> list[str]:
    """Groups and folders of a machine, and the command that makes it."""
    group = group_of(home, name)
    if name == CONTROL_PLANE:
        cgroups.create(group)
        script, path = control_plane_script(), home.config / "control-plane.sh"
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
    return holder_command(path, cgroups.entry_files(group), follow_host=name == CONTROL_PLANE)


def mount_points() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4].replace("\\040", " ") for line in lines]


def cable_up(home: Home, record: ClusterRecord, pids: dict[str, int]) -> None:
    """Make the network of these machines what it should be; touch nothing that already is."""
    addresses, spec = record.addresses, record.spec
    hub = pids[CONTROL_PLANE]
    present = devices(hub)
    if network.BRIDGE not in present:
        ip(network.bridge(), hub)
    if network.UPLINK not in present:
        ip([f"link del {home.host_link}"], check=False)
        ip([network.host_cable(home.host_link, hub)])
    with contextlib.suppress(FileNotFoundError):
        Path(f"/proc/sys/net/ipv6/conf/{home.host_link}/disable_ipv6").write_text("1")
    nft(network.host_filter(home.filter_table, addresses, home.host_link))
    ip(network.host(addresses, home.host_link))
    nft(network.control_plane_filter(), hub)
    ip(network.control_plane_links(addresses), hub)
    cut = cuts(home)
    for number, name in enumerate(spec.node_names, start=1):
        if name not in pids:
            continue
        port = network.port(number)
        if port not in devices(hub) or network.NODE_LINK not in devices(pids[name]):
            ip([f"link del {port}"], hub, check=False)
            ip([network.node_cable(number, hub, pids[name])])
        ip(network.plug_in(number, connected=name not in cut), hub)
        ip(network.node(addresses, number, spec.nodes), pids[name])
        ip(network.routes_to_peers(addresses, peers(home)), pids[name])
    ip(network.control_plane_routes(addresses, spec.nodes), hub)


def cuts(home: Home) -> set[str]:
    """The machines whose cables are cut on purpose."""
    return {entry.name for entry in home.cuts.iterdir()} if home.cuts.is_dir() else set()


def devices(pid: int) -> set[str]:
    """The network devices that a process sees."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError as error:
        raise CableError(f"process {pid} is gone") from error
    return {line.partition(":")[0].strip() for line in lines[2:]}


def ip(commands: list[str], pid: int | None = None, *, check: bool = True) -> None:
    """Run `ip` commands, in the network of a process if one is named."""
    if commands:
        _run(["ip", "-batch", "-"], "\n".join(commands) + "\n", pid, check=check)


def nft(ruleset: str, pid: int | None = None, *, check: bool = True) -> None:
    _run(["nft", "-f", "-"], ruleset, pid, check=check)


def _run(command: list[str], text: str, pid: int | None, *, check: bool) -> None:
    enter = ["nsenter", f"--target={pid}", "--net", "--"] if pid is not None else []
    done = subprocess.run(
        [*enter, *command],
        input=text,
        check=False,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
    )
    if check and done.returncode != 0:
        raise CableError(f"{' '.join(command)} failed: {done.stderr.strip()}\n{text}")


def init_of(home: Home, machine: str, init: str) -> Process:
    """The running first process of a machine."""
    for process in processes.of_cluster(home.path):
        if process.component == machine and process.argv[0] == init:
            return process
    raise LocalError(
        f"{machine} of cluster {home.name!r} is not running; see `edgewise local status`"
    )
