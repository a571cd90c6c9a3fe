"""The processes of local clusters, found by a mark in their environment.

No pid files: a mark is set by the kernel together with the process, so there is
no moment at which a killed manager has started something that nobody can find.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from edgewise.local.errors import LocalError

CLUSTER = "EDGEWISE_LOCAL"
COMPONENT = "EDGEWISE_COMPONENT"

_LINUX = sys.platform.startswith("linux")
_PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    pid: int
    # Together with the pid this names one process for ever.
    started: int
    cluster: str
    component: str
    argv: tuple[str, ...]

    @property
    def alive(self) -> bool:
        return started(self.pid) == self.started


_SETTINGS = {
    # On two cores, each collection of the API server's garbage holds up whoever writes meanwhile
    # by 30 to 50 ms. A third of them costs memory only while there is much to do.
    "kube-apiserver": {"GOGC": "300", "GOMEMLIMIT": "2GiB"},
    # A write passes through many short steps of etcd. Where each may run on another core, waking
    # that one takes longer than the step: a third of etcd's time on two cores.
    "etcd": {"GOMAXPROCS": str(max(1, (os.cpu_count() or 1) // 2))},
}


def marked() -> list[Process]:
    """Every process of every local cluster that this user may see."""
    return _marked_in_proc() if _LINUX else _marked_in_ps()


def of_cluster(home: Path) -> list[Process]:
    return [process for process in marked() if process.cluster == str(home)]


def environment(home: Path, component: str) -> dict[str, str]:
    """What a component is started with. Nothing of the user's own, such as a proxy."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        **_SETTINGS.get(component, {}),
        **marks(home, component),
    }


def marks(home: Path, component: str) -> dict[str, str]:
    """What makes a process, and all that it starts, one of the cluster's."""
    return {CLUSTER: str(home), COMPONENT: component}


def started(pid: int) -> int | None:
    """When the process began, in the kernel's own count; None when it is gone or a zombie."""
    if not _LINUX:
        return _started_by_ps(pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name is in parentheses and may itself hold anything.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def paused(pid: int) -> bool:
    """Whether it is stopped where it is; on other systems than Linux, nobody knows."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] in "Tt"


def runs(pid: int) -> bool:
    """Whether any of its threads may go on; a stop reaches them one after the other."""
    for stat in (_PROC / str(pid) / "task").glob("*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it has ended
        if text[text.rindex(")") + 2] not in "TtZX":
            return True
    return False


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    if not _LINUX:
        if process.alive:
            os.kill(process.pid, number)
            return True
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle holds the pid, so what is checked now is what gets the signal.
        if not process.alive:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def kill_all(find: Callable[[], Iterable[Process]], timeout: float = 20.0) -> int:
    """SIGKILL whatever `find` finds, until it finds nothing. Says how many there were."""
    seen: set[tuple[int, int]] = set()
    deadline = time.monotonic() + timeout
    while True:
        left = [process for process in find() if process.pid != os.getpid()]
        if not left:
            return len(seen)
        if time.monotonic() > deadline:
            names = ", ".join(f"{process.component} ({process.pid})" for process in left)
            raise LocalError(f"these processes do not end: {names}; look at their state with `ps`")
        for process in left:
            seen.add((process.pid, process.started))
            send(process, signal.SIGKILL)
        time.sleep(0.01)


def memory(pid: int) -> int:
    """Bytes of memory that are this process's own share."""
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def children(pid: int) -> list[int]:
    """The processes that a process has started and not yet collected."""
    with contextlib.suppress(OSError):
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    return []


def look(pid: int) -> Process | None:
    """One process, if it belongs to a cluster."""
    if not _LINUX:
        return next((process for process in marked() if process.pid == pid), None)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
        if f"{CLUSTER}=".encode() not in environ:
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            cmdline = file.read()
    except OSError:
        return None
    since = started(pid)
    variables = dict(part.split("=", 1) for part in os.fsdecode(environ).split("\0") if "=" in part)
    if since is None or CLUSTER not in variables:
        return None
    argv = tuple(os.fsdecode(cmdline).removesuffix("\0").split("\0"))
    return Process(pid, since, variables[CLUSTER], variables.get(COMPONENT, ""), argv)


def _marked_in_proc() -> list[Process]:
    pids = [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]
    return [process for process in map(look, pids) if process is not None]


def _marked_in_ps() -> list[Process]:
    """The same without /proc: `ps` shows the environment of one's own processes."""
    listing = subprocess.run(
        ["ps", "-xEww", "-o", "pid=,command="],
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout
    found = []
    for line in listing.splitlines():
        pid, _, command = line.strip().partition(" ")
        words = command.split()
        variables = dict(word.split("=", 1) for word in words if "=" in word)
        since = started(int(pid)) if CLUSTER in variables else None
        if since is not None:
            argv = tuple(word for word in words if not word.isupper())
            found.append(
                Process(int(pid), since, variables[CLUSTER], variables.get(COMPONENT, ""), argv)
            )
    return found


def _started_by_ps(pid: int) -> int | None:
    listing = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        check=False,  # it fails when there is no such process
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout.strip()
    state, _, when = listing.partition(" ")
    if not when or state.startswith("Z"):
        return None
    return int(time.mktime(time.strptime(when.strip(), "%a %b %d %H:%M:%S %Y")))
