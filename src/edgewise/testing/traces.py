"""A strict look for anything that a local cluster could have left on this machine.

Unlike `edgewise local down` it does not trust marks and names alone: it remembers
the namespaces in which it saw the cluster live, and looks at every process and
every mount table for them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from edgewise.local import registry
from edgewise.local.engine.cache import cache_root
from edgewise.local.layout import CGROUP, Home
from edgewise.local.machines import cgroups, processes
from edgewise.local.network import cabling

_NAMESPACES = ("mnt", "net", "pid", "uts", "ipc", "cgroup")


class Traces:
    """Watches a cluster while it lives; says afterwards what is left of it.

    Use it as a context manager around the cluster's whole life.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.own = {name: _inode("self", name) for name in _NAMESPACES}
        self.seen: set[tuple[str, int | None]] = set()
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.watcher.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self.watcher.join()

    def _watch(self) -> None:
        # Rarely enough to leave the cluster its cores; what is left behind lives longer than this.
        while not self.over.wait(0.1):
            for process in processes.of_cluster(self.home.path):
                for name in _NAMESPACES:
                    inode = _inode(str(process.pid), name)
                    if inode is not None and inode != self.own[name]:
                        self.seen.add((name, inode))

    def left(self) -> list[str]:
        """Everything that is still there; nothing is the right answer."""
        home = self.home
        found = [f"link {home.host_link}"] if home.host_link in cabling.host_links() else []
        if home.filter_table in cabling.filter_tables():
            found.append(f"filter table {home.filter_table}")
        if os.path.basename(home.cgroup) in cgroups.children():
            found.append(f"control group {home.cgroup}")
        found += [f"route {line}" for line in _routes() if home.host_link in line]
        found += [str(path) for path in (home.path, *home.path.parent.glob(".*")) if path.exists()]
        folder = registry.registry_folder()
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_symlink() and os.readlink(entry) == str(home.path):
                found.append(f"claim {entry}")
        found += [str(path) for path in (cache_root() / "node-images").glob(".store-*")]
        return [*found, *self._left_in_processes()]

    def _left_in_processes(self) -> list[str]:
        found: list[str] = []
        tables: set[int | None] = set()
        path = os.fsencode(self.home.path)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            # A process that has ended holds nothing; its parent, often init, collects it.
            if int(pid) == os.getpid() or processes.started(int(pid)) is None:
                continue
            command = _read(pid, "cmdline")
            what = f"process {pid}: {os.fsdecode(command.replace(bytes(1), b' '))}"
            if path in command or path in _read(pid, "environ"):
                found.append(what)
            groups = _read(pid, "cgroup").decode()
            if f"/{self.home.cgroup}" in groups:
                found.append(f"{self.home.cgroup} of {what}")
            elif f"/{CGROUP}/" in groups:
                continue  # another cluster's, which may have been given the same numbers since
            found += [
                f"{name} namespace of {what}"
                for name in _NAMESPACES
                if (name, _inode(pid, name)) in self.seen
            ]
            table = _inode(pid, "mnt")
            if table not in tables:
                tables.add(table)
                mounts = _read(pid, "mountinfo").splitlines()
                found += [f"mount {os.fsdecode(line)}" for line in mounts if path in line]
        return found


def _inode(pid: str, namespace: str) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/{namespace}").st_ino
    except OSError:
        return None


def _read(pid: str, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _routes() -> list[str]:
    return Path("/proc/net/route").read_text().splitlines()
