"""A part of every control group hierarchy for each cluster, and within it one for each node.

Works with the older split hierarchies (v1, also beside an empty unified one) and
with the unified one (v2).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec

from edgewise.local.errors import LocalError
from edgewise.local.layout import CGROUP

# Daemons of a node live in a leaf of their own: v2 wants no processes in inner groups.
DAEMONS = "daemons"
_ATTEMPTS = 10
_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


class Hierarchy(msgspec.Struct, frozen=True):
    mount: str
    unified: bool
    # v1: which controllers are mounted here.
    controllers: tuple[str, ...] = ()


def hierarchies() -> list[Hierarchy]:
    return hierarchies_in(Path("/proc/self/mountinfo").read_text())


def hierarchies_in(mountinfo: str) -> list[Hierarchy]:
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        mount = before.split()[4]
        if not mount.startswith("/sys/fs/cgroup"):
            continue
        if kind == "cgroup2":
            found.append(Hierarchy(mount, unified=True))
        elif kind == "cgroup":
            names = tuple(o for o in options.split()[-1].split(",") if o not in ("rw", "xattr"))
            found.append(Hierarchy(mount, unified=False, controllers=names))
    return found


def create(group: str, leaf: str = "") -> None:
    """Make `group` in every hierarchy, and in it a leaf if one is named.

    In v2, `group` gives its controllers to its children only once its first process
    has looked around and moved to the leaf: `delegation` says how.
    """
    found = hierarchies()
    for hierarchy in found:
        for attempt in range(_ATTEMPTS):
            try:
                _create_in(hierarchy, group, leaf, delegate=delegates(found))
                break
            except FileNotFoundError:
                # Another cluster, going, has just removed the empty group above all of them.
                if attempt == _ATTEMPTS - 1:
                    raise


def delegates(found: list[Hierarchy]) -> bool:
    """Whether controllers are passed down a v2 hierarchy: beside v1 it has none that matter."""
    return len(found) == 1 and found[0].unified


def _create_in(hierarchy: Hierarchy, group: str, leaf: str, *, delegate: bool) -> None:
    path = Path(hierarchy.mount)
    for part in Path(group).parts:
        if delegate:
            _delegate(path)
        path = _made(path / part, hierarchy)
    if leaf:
        _made(path / leaf, hierarchy)


def _made(path: Path, hierarchy: Hierarchy) -> Path:
    path.mkdir(exist_ok=True)
    if "cpuset" in hierarchy.controllers:
        _inherit_cpuset(path)
    return path


def _delegate(path: Path) -> None:
    """Let the children of a v2 group have controllers, each that is there."""
    available = (path / "cgroup.controllers").read_text().split()
    for controller in _CONTROLLERS:
        if controller in available:
            with contextlib.suppress(OSError):
                (path / "cgroup.subtree_control").write_text(f"+{controller}")


def delegation(mounted: str) -> list[str]:
    """Shell commands by which the root of a v2 hierarchy gives all controllers to its children."""
    return [
        f"for c in $(cat {mounted}/cgroup.controllers); do "
        f'echo "+$c" 2> /dev/null > {mounted}/cgroup.subtree_control || :; done'
    ]


def _inherit_cpuset(path: Path) -> None:
    """A v1 cpuset is born empty, and nothing may run in an empty one."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (path / name).read_text().strip():
            (path / name).write_text((path.parent / name).read_text())


def entry_files(group: str) -> list[str]:
    """Writing a pid into each of these puts the process into `group`."""
    return [f"{hierarchy.mount}/{group}/cgroup.procs" for hierarchy in hierarchies()]


def exists(group: str) -> bool:
    return any((Path(hierarchy.mount) / group).exists() for hierarchy in hierarchies())


def children(group: str = CGROUP) -> set[str]:
    """The groups directly in `group`, in any hierarchy."""
    found: set[str] = set()
    for hierarchy in hierarchies():
        path = Path(hierarchy.mount) / group
        with contextlib.suppress(FileNotFoundError):
            found |= {entry.name for entry in path.iterdir() if entry.is_dir()}
    return found


def remove(group: str, timeout: float = 10.0) -> None:
    """Remove `group` and all in it; processes that still are in it are ended."""
    deadline = time.monotonic() + timeout
    for hierarchy in hierarchies():
        path = Path(hierarchy.mount) / group
        while path.exists() and not _removed(path):
            if time.monotonic() > deadline:
                raise LocalError(f"control group {path} cannot be removed: it is still in use")
            time.sleep(0.02)


def remove_top() -> None:
    """Remove the group that holds those of all clusters, if it holds none."""
    for hierarchy in hierarchies():
        with contextlib.suppress(OSError):
            (Path(hierarchy.mount) / CGROUP).rmdir()


def _removed(path: Path) -> bool:
    """One attempt, from the bottom up."""
    for folder, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError:
            _end_processes(Path(folder))
    return not path.exists()


def _end_processes(group: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def memory_of(group: str) -> int | None:
    """Bytes in use by all that is in `group`, page cache left out; None when nobody counts."""
    for hierarchy in hierarchies():
        path = Path(hierarchy.mount) / group
        for name, cache in (("memory.usage_in_bytes", "total_cache"), ("memory.current", "file")):
            with contextlib.suppress(OSError, ValueError):
                used = int((path / name).read_text())
                stat = dict(
                    line.split() for line in (path / "memory.stat").read_text().splitlines()
                )
                return max(0, used - int(stat.get(cache, 0)))
    return None
