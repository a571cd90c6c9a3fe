"""Takes a cluster down: from its folder alone, in whatever state it is.

The order matters. First it is written down that the cluster goes, so that no
manager starts anything again; then processes end, and only then is removed what
they held; the folder goes last, because it is what a second attempt starts from.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from edgewise.local import registry
from edgewise.local.control_plane.kubeconfigs import unmerge_everywhere
from edgewise.local.layout import GONE_PREFIX, Home
from edgewise.local.machines import cgroups, processes
from edgewise.local.network import cabling, connections

# How long whoever is starting the cluster may take to notice that it goes.
_NOTICE_SECONDS = 10.0


@contextlib.contextmanager
def changing(home: Home) -> Iterator[None]:
    """One at a time brings a cluster up; a second one waits and finds the work done."""
    while True:
        home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if home.going_down.exists():
            take_down(home)  # finish what a killed `down` began
            continue
        handle = os.open(home.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _still(handle, home.path):
                yield
                return
        finally:
            os.close(handle)


def take_down(home: Home) -> None:
    try:
        home.going_down.touch()
        handle = os.open(home.path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        # Whoever is starting it stops, and lets go; whoever hangs is not waited for.
        _lock_within(handle, _NOTICE_SECONDS)
        if _still(handle, home.path):
            remove(home)
    finally:
        os.close(handle)


def remove(home: Home) -> None:
    connections.forget_everywhere(home)
    processes.kill_all(lambda: processes.of_cluster(home.path))
    if os.geteuid() == 0:
        remove_from_system(home)
    unmerge_everywhere(home)
    registry.release(home)
    remove_folder(home.path)


def remove_from_system(home: Home) -> None:
    """What the kernel keeps although no process of the cluster is left."""
    cgroups.remove(home.cgroup)
    cgroups.remove_top()
    # It may also be on its way out by itself, with the namespace at its other end.
    while home.host_link in cabling.host_links():
        cabling.ip([f"link del {home.host_link}"], check=False)
    if home.filter_table in cabling.filter_tables():
        cabling.nft(f"delete table inet {home.filter_table}\n")


def remove_folder(path: Path) -> None:
    """At once, for whoever looks: a half-removed cluster is never taken for a cluster."""
    doomed = path.with_name(f"{GONE_PREFIX}{path.name}-{time.time_ns()}")
    path.rename(doomed)
    remove_remains(path.parent)


def remove_remains(clusters: Path) -> None:
    """Folders of clusters that are gone already, and what holds nothing else."""
    for doomed in clusters.glob(f"{GONE_PREFIX}*"):
        shutil.rmtree(doomed, ignore_errors=True)
    for folder in (clusters, clusters.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _lock_within(handle: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.02)


def _still(handle: int, path: Path) -> bool:
    """Whether the folder is the one that was opened."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
