"""What a process of this machine uses, as the kernel counts it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# The column of /proc/net that has the socket's number.
_PROTOCOLS = {"tcp": 9, "tcp6": 9, "udp": 9, "udp6": 9, "unix": 6}


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far."""
    # The name of the program, in parentheses, may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def children() -> dict[int, list[int]]:
    """Who started whom, of all that runs now: dozens of milliseconds on a machine with clusters."""
    found: dict[int, list[int]] = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        found.setdefault(int(fields[1]), []).append(int(each))
    return found


def tree(pid: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    """The process and all that it started."""
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def descriptors(pid: int) -> dict[str, int]:
    """How many of each kind it holds: tcp, unix, pipe, eventpoll, pidfd, file and so on."""
    sockets = _sockets(pid)
    found: Counter[str] = Counter()
    for each in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{each}")
        except OSError:
            continue  # it was closed meanwhile
        if target.startswith("/"):
            found["file"] += 1
            continue
        kind, _, rest = target.partition(":")
        inner = rest.strip("[]")
        if kind == "socket":
            kind = sockets.get(inner, kind)
        found[inner if kind == "anon_inode" else kind] += 1
    return dict(sorted(found.items()))


def _sockets(pid: int) -> dict[str, str]:
    """Of the network that the process is in: the number of each socket, and its protocol."""
    found = {}
    for protocol, column in _PROTOCOLS.items():
        try:
            lines = Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()
        except FileNotFoundError:
            continue  # a kernel without IPv6
        for line in lines[1:]:
            found[line.split()[column]] = protocol.removesuffix("6")
    return found


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
