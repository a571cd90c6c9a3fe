"""What this machine has and lacks for local clusters, tried rather than guessed.

Every trial runs in namespaces of its own, so it leaves nothing behind.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from edgewise.local import leftovers
from edgewise.local.errors import LocalError
from edgewise.local.layout import nearest_folder, state_root
from edgewise.local.machines import cgroups
from edgewise.local.machines.container_programs import missing_packages
from edgewise.local.network.latency import RELAY

_TRIAL_SECONDS = 20
_NODE_BYTES = 400 << 20
_DISK_BYTES = 3 << 30
_INOTIFY_PER_NODE = 8


class Check(msgspec.Struct, frozen=True):
    name: str
    good: bool
    found: str
    advice: str = ""
    # Without it there are no clusters at all; otherwise there are simulated nodes only.
    vital: bool = False
    # Whether real nodes are in doubt because of it.
    hinders: bool = True


def examine() -> list[Check]:
    checks = [_engine(), _disk(), _memory()]
    if not sys.platform.startswith("linux"):
        advice = "use `--simulated-nodes`; real nodes need Linux"
        return [*checks, Check("Linux", good=False, found=sys.platform, advice=advice)]
    checks += [_root(), _packages()]
    if os.geteuid() == 0:
        checks += [
            *_trials(),
            _cgroups(),
            _inotify(),
            _leftovers(),
        ]
    return checks


def real_nodes_trouble() -> str:
    """Why real nodes cannot be had here, as half a sentence; empty when they can."""
    if not sys.platform.startswith("linux"):
        return f"real nodes need Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "real nodes need root"
    return ""


def _engine() -> Check:
    # Every command of `edgewise local` imports this module, and few of them look for an engine.
    from edgewise.local.engine.cache import NoCache  # noqa: PLC0415
    from edgewise.local.engine.finding import (  # noqa: PLC0415
        PROGRAMS,
        EngineError,
        NamedDirectoryError,
        find_engine,
    )

    try:
        engine = find_engine(download=False, build=False)
    except NamedDirectoryError as error:
        return Check(
            "engine",
            good=False,
            found=str(error),
            advice="unset EDGEWISE_ENGINE_DIR, or set it to a directory whose programs fit",
            vital=True,
        )
    except NoCache as error:
        why, _, advice = str(error).partition(": ")
        return Check("engine", good=False, found=why, advice=advice, vital=True)
    except EngineError as error:
        return Check(
            "engine",
            good=False,
            found=str(error),
            advice="`edgewise local engine` downloads or builds it once",
        )
    sources = sorted({engine[name].source for name in PROGRAMS})
    return Check("engine", good=True, found=f"Kubernetes programs from {', '.join(sources)}")


def _disk() -> Check:
    try:
        place = nearest_folder(state_root())
    except LocalError as error:
        why, _, advice = str(error).partition(": ")
        return Check("disk", good=False, found=why, advice=advice, vital=True)
    free = shutil.disk_usage(place).free
    return Check(
        "disk",
        good=free > _DISK_BYTES,
        found=f"{free >> 30} GiB free at {place}",
        advice="free some space, or set EDGEWISE_STATE_DIR to a place that has 3 GiB",
        vital=True,
    )


def _memory() -> Check:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except FileNotFoundError:
        return Check("memory", good=True, found="not known on this system")
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return Check(
        "memory",
        good=available * 1024 > 3 * _NODE_BYTES,
        found=f"{available >> 10} MiB available",
        advice="a cluster of two nodes needs about 1 GiB; end some programs",
    )


def _root() -> Check:
    return Check(
        "root",
        good=os.geteuid() == 0,
        found=f"user id {os.geteuid()}",
        advice="run as root for real nodes; without it there are simulated ones",
    )


def _packages() -> Check:
    missing = missing_packages()
    return Check(
        "packages",
        good=not missing,
        found=f"missing: {', '.join(missing)}" if missing else "all there",
        advice=f"apt-get install --no-install-recommends {' '.join(missing)}",
    )


def _trials() -> list[Check]:
    namespaces = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--fork"]
    kernel = "the kernel lacks it, or this is a container without the right to use it"
    trials = {
        "namespaces": ("true", f"allow namespaces: {kernel}"),
        "virtual cables": (
            "ip link add name v0 type veth peer name v1 && ip link add name v2 type bridge",
            f"load the modules veth and bridge: {kernel}",
        ),
        "cables that take their time": (
            f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(RELAY))} lo lo try",
            f"allow raw sockets with offload data (PACKET_VNET_HDR): {kernel}",
        ),
        "packet filter": (
            "nft 'add table inet t; add chain inet t c "
            "{ type filter hook input priority 0; policy accept; }; "
            "add rule inet t c ct state established accept'",
            f"load the modules nf_tables and nf_conntrack: {kernel}",
        ),
        # What policies are made of: maps of verdicts, sets of several fields, the way back.
        "network policies": (
            "nft 'add table inet t; add chain inet t c "
            "{ type filter hook forward priority 0; policy accept; }; add chain inet t d; "
            "add set inet t s { type ipv4_addr . inet_proto . inet_service; flags interval; }; "
            "add map inet t m { type ipv4_addr : verdict; }; "
            "add rule inet t c iifname != eth0 fib saddr . iif oif missing drop; "
            "add rule inet t d ip saddr . meta l4proto . th dport @s return; "
            "add element inet t m { 10.0.0.1 : jump d }; "
            "add rule inet t c ct direction reply accept; add rule inet t c ip saddr vmap @m'",
            f"NetworkPolicies will not be enforced; load the module nft_fib_inet: {kernel}",
        ),
    }
    checks = [_trial(name, [*namespaces, "sh", "-ec", s], a) for name, (s, a) in trials.items()]
    try:
        place = nearest_folder(state_root())
    except LocalError:
        return checks  # said already, where the disk is looked at
    with tempfile.TemporaryDirectory(prefix=".edgewise-doctor-", dir=place) as folder:
        script = (
            'cd "$1"; mkdir l u w m; mount -t overlay overlay -o '
            "lowerdir=$1/l,upperdir=$1/u,workdir=$1/w $1/m && touch m/x"
        )
        command = ["unshare", "--mount", "sh", "-ec", script, "sh", folder]
        advice = "set EDGEWISE_STATE_DIR to a folder on a plain disk, such as ext4 or xfs"
        checks.append(_trial("overlay file system", command, advice))
    return checks


def _trial(name: str, command: list[str], advice: str) -> Check:
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_TRIAL_SECONDS
        )
        trouble = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    return Check(name, good=not trouble, found=trouble or "works", advice=advice)


def _cgroups() -> Check:
    found = cgroups.hierarchies()
    names = {name for hierarchy in found for name in hierarchy.controllers}
    for hierarchy in found:
        if hierarchy.unified:
            names |= set((Path(hierarchy.mount) / "cgroup.controllers").read_text().split())
    missing = {"cpu", "memory", "pids", "cpuset"} - names
    return Check(
        "control groups",
        good=not missing,
        found=f"without {', '.join(sorted(missing))}" if missing else "all controllers there",
        advice="enable them on the kernel's command line (cgroup_enable=…)",
    )


def _inotify() -> Check:
    allowed = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    return Check(
        "inotify",
        good=allowed >= 4 * _INOTIFY_PER_NODE,
        found=f"{allowed} instances, enough for about {allowed // _INOTIFY_PER_NODE} nodes",
        advice="raise it: sysctl fs.inotify.max_user_instances=1024",
    )


def _leftovers() -> Check:
    left = leftovers.ownerless().lines()
    return Check(
        "leftovers",
        good=not left,
        found="; ".join(left[:3]) if left else "none",
        advice="`edgewise local down --all` removes them",
        hinders=False,
    )
