"""The shell scripts that turn fresh namespaces into a machine. Pure: text out.

A node sees this machine's own root file system, read-only and without anything
that is mounted on it, so that a node neither leaves a file behind nor keeps
somebody's mount from being removed. What a node writes, it writes to its folder
in the cluster's folder, or to memory.
"""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterable
from pathlib import Path

from edgewise.local.machines.cgroups import DAEMONS, Hierarchy, delegates, delegation

# Parts of the system that might be file systems of their own.
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_IN_MEMORY = ("/run", "/tmp")  # noqa: S108 - mount points
_COVERED = (*_IN_MEMORY, "/var/lib", "/var/log")


def mounts_to_keep(mount_points: Iterable[str], needed: Iterable[str]) -> list[str]:
    """The mounts without which some needed path would not be seen, outermost first."""
    wanted = [Path(path) for path in (*_SYSTEM, *needed)]
    kept = {
        mount
        for mount in mount_points
        if mount != "/"
        and not mount.startswith(("/proc", "/sys", "/dev"))
        and any(path.is_relative_to(mount) for path in wanted)
        and not any(Path(mount).is_relative_to(covered) for covered in _COVERED)
    }
    return sorted(kept, key=lambda mount: (mount.count("/"), mount))


def node_script(
    *,
    name: str,
    folder: Path,
    visible: Iterable[str],
    mount_points: Iterable[str],
    hierarchies: Iterable[Hierarchy],
    cgroup: str,
) -> str:
    """Run as the first process of the namespaces; becomes its argument, init, at the end."""
    root = folder / "root"
    shown = sorted({*visible, str(folder)})
    lines = [
        "set -e",
        f"R={shlex.quote(str(root))}",
        'mount --bind / "$R"',
        'mount -o remount,bind,ro "$R"',
        *(
            f'mount --bind {q(mount)} "$R"{q(mount)}'
            for mount in mounts_to_keep(mount_points, shown)
        ),
        'mount -t proc proc "$R/proc"',
        # A new one: the old shows the network, and pins the groups, of the host.
        'mount -t sysfs sysfs "$R/sys"',
        'mount --rbind /dev "$R/dev"',
        *(f'mount -t tmpfs -o mode=755 tmpfs "$R{path}"' for path in _IN_MEMORY),
        'chmod 1777 "$R/tmp"',
        f'mount --bind {q(folder / "lib")} "$R/var/lib"',
        f'mount --bind {q(folder / "log")} "$R/var/log"',
        f'[ ! -e /etc/machine-id ] || mount --bind {q(folder / "machine-id")} "$R/etc/machine-id"',
    ]
    for path in shown:
        # Below a covered folder the way there has to be made; elsewhere it exists.
        lines += [f'mkdir -p "$R"{q(path)}', f'mount --bind {q(path)} "$R"{q(path)}']
    groups = list(hierarchies)
    lines += _cgroup_lines(groups, cgroup)
    lines += [
        'mkdir "$R/run/old-root"',
        'cd "$R"',
        "pivot_root . run/old-root",
        "cd /",
        "umount -l /run/old-root",
        "rmdir /run/old-root",
        # Containers see mounts that are made later, as volumes want it.
        "mount --make-rshared /",
        f"echo {q(name)} > /proc/sys/kernel/hostname",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        *_enter_cgroup_namespace(groups),
    ]
    return "\n".join(lines) + "\n"


def _enter_cgroup_namespace(hierarchies: list[Hierarchy]) -> list[str]:
    """Make the machine's own groups all there are; then go to the leaf, and become init."""
    mounts = [inner_mount(hierarchy, hierarchies) for hierarchy in hierarchies]
    to_top = " ".join(f"{mount}/cgroup.procs" for mount in mounts)
    to_leaf = " ".join(f"{mount}/{DAEMONS}/cgroup.procs" for mount in mounts)
    inner = [
        f"for f in {to_leaf}; do echo 0 > $f; done",
        *(delegation(mounts[0]) if delegates(hierarchies) else []),
        'exec "$1"',
    ]
    return [
        f"for f in {to_top}; do echo 0 > $f; done",
        f'exec unshare --cgroup sh -e -c {q("; ".join(inner))} sh "$1"',
    ]


def inner_mount(hierarchy: Hierarchy, hierarchies: list[Hierarchy]) -> str:
    """Where a machine finds a hierarchy: alone in the usual place, or beside the others."""
    if len(hierarchies) == 1:
        return "/sys/fs/cgroup"
    return f"/sys/fs/cgroup/{os.path.basename(hierarchy.mount)}"


def _cgroup_lines(hierarchies: list[Hierarchy], cgroup: str) -> list[str]:
    lines = []
    if len(hierarchies) > 1:
        lines = ['mount -t tmpfs -o mode=755 tmpfs "$R/sys/fs/cgroup"']
    for hierarchy in hierarchies:
        here, inner = os.path.basename(hierarchy.mount), inner_mount(hierarchy, hierarchies)
        lines += [
            f'mkdir -p "$R"{q(inner)}',
            f'mount --bind {q(f"{hierarchy.mount}/{cgroup}")} "$R"{q(inner)}',
        ]
        if "," in here:  # cpu,cpuacct is found under either name
            for controller in hierarchy.controllers:
                lines.append(f'ln -s {q(here)} "$R/sys/fs/cgroup/"{q(controller)}')
    return lines


def control_plane_script() -> str:
    """The control plane has a network and processes of its own, and the host's files."""
    return "\n".join(
        [
            "set -e",
            "mount -t proc proc /proc",
            "mount -t sysfs sysfs /sys",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            'exec "$1"',
            "",
        ]
    )


def place_script(place: str, folder: Path) -> str:
    """A place has a network, names and processes of its own, and the host's files."""
    resolv = q(folder / "resolv.conf")
    return "\n".join(
        [
            "set -e",
            "mount -t proc proc /proc",
            "mount -t sysfs sysfs /sys",
            f"[ ! -e /etc/resolv.conf ] || mount --bind {resolv} /etc/resolv.conf",
            f"echo {q(place)} > /proc/sys/kernel/hostname",
            'exec "$1"',
            "",
        ]
    )


def holder_command(script: Path, entry_files: Iterable[str], *, follow_host: bool) -> list[str]:
    """Join the control groups, then run the script in namespaces of its own; init follows.

    The namespaces live as long as the outer process does: it takes its child
    with it, and the child is the first process of the pid namespace. Who sees the
    host's mounts follows what the host does with them, so as not to pin any.
    """
    return [
        *joining(entry_files),
        "unshare",
        "--mount",
        "--net",
        "--uts",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
        f"--propagation={'slave' if follow_host else 'private'}",
        "sh",
        str(script),
    ]


def inside(pid: int, entry_files: Iterable[str]) -> list[str]:
    """What is put before a command to run it in the machine whose init is `pid`."""
    namespaces = ["--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup"]
    return [*joining(entry_files), "nsenter", f"--target={pid}", *namespaces, "--"]


def joining(entry_files: Iterable[str]) -> list[str]:
    entries = list(entry_files)
    if not entries:
        return []
    files = " ".join(shlex.quote(file) for file in entries)
    return ["sh", "-c", f'for f in {files}; do echo $$ > "$f"; done; exec "$@"', "sh"]


def q(value: str | Path) -> str:
    return shlex.quote(str(value))
