"""Finds what clusters have left behind on this machine, and removes it.

Everything a cluster makes carries a name that begins in the same way, so what is
left over can be found without any file of the cluster, and told from what belongs
to a cluster that still exists.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from edgewise.local import registry
from edgewise.local.layout import CGROUP, GONE_PREFIX, Home, homes, state_root
from edgewise.local.machines import cgroups, processes
from edgewise.local.network import cabling
from edgewise.local.teardown import remove_remains


class Leftovers(msgspec.Struct, frozen=True):
    processes: list[str]
    mounts: list[str]
    network_namespaces: list[str]
    links: list[str]
    filter_tables: list[str]
    cgroups: list[str]
    files: list[str]

    def __bool__(self) -> bool:
        return any(getattr(self, field) for field in self.__struct_fields__)

    def lines(self) -> list[str]:
        return [
            f"{field.replace('_', ' ')}: {item}"
            for field in self.__struct_fields__
            for item in getattr(self, field)
        ]


def everything() -> Leftovers:
    """All that belongs to any local cluster of this user, wanted or not."""
    found = processes.marked()
    root = os.geteuid() == 0
    return Leftovers(
        processes=[f"{p.pid} {p.component} of {p.cluster}" for p in found],
        mounts=_mounts(),
        network_namespaces=_network_namespaces(found),
        links=cabling.host_links() if root else [],
        filter_tables=cabling.filter_tables() if root else [],
        cgroups=sorted(f"{CGROUP}/{name}" for name in cgroups.children()) if root else [],
        files=_files(),
    )


def ownerless() -> Leftovers:
    """What no existing cluster owns. Clusters of other state folders do exist."""
    root = os.geteuid() == 0
    kept = _owners()
    mine = {home.cgroup for home in kept}
    links = {home.host_link for home in kept}
    tables = {home.filter_table for home in kept}
    return Leftovers(
        processes=[f"{p.pid} {p.component} of {p.cluster}" for p in _orphans()],
        mounts=[],
        network_namespaces=[],
        links=[link for link in cabling.host_links() if link not in links] if root else [],
        filter_tables=[t for t in cabling.filter_tables() if t not in tables] if root else [],
        cgroups=[
            f"{CGROUP}/{name}" for name in cgroups.children() if f"{CGROUP}/{name}" not in mine
        ]
        if root
        else [],
        files=[
            str(path)
            for path in (
                *(state_root() / "clusters").glob(f"{GONE_PREFIX}*"),
                *registry.ownerless_scratch(kept),
            )
        ],
    )


def sweep() -> None:
    """Remove what no existing cluster owns."""
    processes.kill_all(_orphans)
    remove_remains(state_root() / "clusters")
    for path in registry.ownerless_scratch(_owners()):
        registry.remove_scratch(path)
    found = ownerless()
    for name in found.cgroups:
        cgroups.remove(name)
    if os.geteuid() == 0:
        cgroups.remove_top()
    for link in found.links:
        cabling.ip([f"link del {link}"], check=False)
    for table in found.filter_tables:
        cabling.nft(f"delete table inet {table}\n", check=False)


def _orphans() -> list[processes.Process]:
    return [process for process in processes.marked() if not Path(process.cluster).is_dir()]


def _owners() -> list[Home]:
    """Every cluster that exists: this user's, and those that the machine's registry knows."""
    if not registry.registry_folder().is_dir():
        return homes()
    with registry.locked() as folder:
        known = list(registry.entries(folder).values())
    return [*known, *homes()]


def _files() -> list[str]:
    folders = (state_root() / "clusters", registry.registry_folder())
    return [str(entry) for folder in folders if folder.is_dir() for entry in folder.iterdir()]


def _mounts() -> list[str]:
    """Mounts of this namespace below a cluster's folder."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except FileNotFoundError:
        return []
    below = str(state_root() / "clusters")
    return [line.split()[4] for line in lines if line.split()[4].startswith(below)]


def _network_namespaces(found: list[processes.Process]) -> list[str]:
    """Network namespaces other than this one in which a cluster's process lives."""
    own = os.stat("/proc/self/ns/net").st_ino if os.path.exists("/proc/self/ns/net") else 0
    namespaces = set()
    for process in found:
        with contextlib.suppress(OSError):
            inode = os.stat(f"/proc/{process.pid}/ns/net").st_ino
            if inode != own:
                namespaces.add(f"net:[{inode}]")
    return sorted(namespaces)
