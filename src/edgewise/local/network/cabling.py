"""Makes the network of a cluster what it should be, from whatever it is.

Whoever finds something missing calls it: the manager when a machine begins, and
the commands that join, cut and heal. Nothing that is right already is touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from edgewise.local.component import CONTROL_PLANE, place_machine
from edgewise.local.errors import LocalError
from edgewise.local.layout import LINK_PREFIX, TABLE_PREFIX, ClusterRecord, Home
from edgewise.local.machines import processes
from edgewise.local.machines.processes import Process
from edgewise.local.network import commands as network
from edgewise.local.network.connections import Peer, peers
from edgewise.local.network.policies.names import MARK
from edgewise.local.spec import HOST

# The cut of a whole cluster, among the names of cut nodes.
WHOLE_CLUSTER = "*"
_COMMAND_SECONDS = 20


class CableError(LocalError):
    """A cable could not be laid."""


def cable_up(home: Home, record: ClusterRecord) -> set[str]:
    """Cable all machines that run; returns their names."""
    with alone(home):
        pids = {
            name: process.pid
            for name, process in running_inits(home, record.programs["init"]).items()
        }
        hub = pids.get(CONTROL_PLANE)
        if hub is None:
            return set()
        cut = cuts(home)
        joined = peers(home)
        _cable_host(home, record, hub, connected=WHOLE_CLUSTER not in cut)
        for number, name in enumerate(record.spec.node_names, start=1):
            if name in pids:
                _close(home, record, number, pids[name])
                _cable_node(record, number, hub, pids[name], connected=name not in cut)
                ip(network.routes_to_peers(record.addresses, joined), pids[name])
        for number, place in enumerate(record.spec.places, start=1):
            if place_machine(place) in pids:
                _cable_place(record, number, hub, pids[place_machine(place)])
                ip(network.routes_to_peers(record.addresses, joined), pids[place_machine(place)])
        ip(network.control_plane_routes(record.addresses, record.spec.nodes), hub)
        for peer in joined:
            _cable_peer(record, hub, peer, connected=WHOLE_CLUSTER not in cut)
        return set(pids)


def _cable_host(home: Home, record: ClusterRecord, hub: int, *, connected: bool) -> None:
    if network.BRIDGE not in devices(hub):
        ip(network.bridge(), hub)
    _lay(hub, network.UPLINK, home.host_link, None, slow=record.spec.latency.get(HOST, 0.0) > 0)
    with contextlib.suppress(FileNotFoundError):
        Path(f"/proc/sys/net/ipv6/conf/{home.host_link}/disable_ipv6").write_text("1")
    nft(network.host_filter(home.filter_table, record.addresses, home.host_link))
    ip(network.host(record.addresses, home.host_link))
    nft(network.control_plane_filter(record.addresses), hub)
    ip(network.control_plane_links(record.addresses, connected=connected), hub)


def _cable_node(
    record: ClusterRecord, number: int, hub: int, node: int, *, connected: bool
) -> None:
    latency = record.spec.latency.get(record.spec.node_names[number - 1], 0.0)
    _lay(hub, network.port(number), network.NODE_LINK, node, slow=latency > 0)
    ip(network.plug_in(network.port(number), connected=connected), hub)
    ip(network.node(record.addresses, number, record.spec.nodes), node)


def _close(home: Home, record: ClusterRecord, number: int, node: int) -> None:
    """Where policies are enforced, a new machine leads nothing to its pods before it has rules."""
    if not (home.path / MARK).exists():
        return
    # Few clusters have policies, and every command of `edgewise local` imports this module.
    from edgewise.local.network.policies import ruleset  # noqa: PLC0415

    table = f"list table inet {ruleset.TABLE}"
    try:
        nft(table, node)
    except CableError:
        nft(ruleset.closed([record.addresses.pods_of(number)], network.NODE_LINK), node)


def _cable_place(record: ClusterRecord, number: int, hub: int, place: int) -> None:
    link = network.place_port(number)
    # Distances may change at any time, so there is always a relay.
    _lay(hub, link, network.NODE_LINK, place, slow=True)
    ip(network.plug_in(link), hub)
    ip(network.place(record.addresses, number, record.spec.nodes), place)


def _cable_peer(record: ClusterRecord, hub: int, peer: Peer, *, connected: bool) -> None:
    other_home = Home(Path(peer.home))
    try:
        init = other_home.read().programs["init"]
        other = running_inits(other_home, init)[CONTROL_PLANE].pid
    except (KeyError, OSError):
        return  # it is not running; it will see to the cable when it does
    mine, theirs = network.peer_link(peer.index), network.peer_link(record.index)
    if record.index < peer.index:  # the relay, if there is one, is the lower one's
        _lay(hub, mine, theirs, other, slow=peer.latency > 0)
    else:
        _lay(other, theirs, mine, hub, slow=peer.latency > 0)
    ip([f"link set {mine} {'up' if connected else 'down'}"], hub)
    if not connected or WHOLE_CLUSTER in cuts(other_home):
        return
    ip(network.peer_routes(peer.addresses), hub)
    ip(network.peer_routes(record.addresses), other)


def _lay(hub: int, link: str, far: str, far_pid: int | None, *, slow: bool) -> None:
    """Lay one cable, unless it is there as it should be."""
    here, there = devices(hub), devices(far_pid if far_pid is not None else os.getpid())
    pieces = set(network.relay_links(link))
    if link in here and far in there and (pieces <= here if slow else not pieces & here):
        return
    for end, pid in ((link, hub), *((piece, hub) for piece in sorted(pieces)), (far, far_pid)):
        ip([f"link del {end}"], pid, check=False)
    ip(network.cable(link, hub, far, far_pid, slow=slow))
    if slow:
        ip(network.relay_ends(link), hub)


def uncable(home: Home, record: ClusterRecord, other: ClusterRecord) -> None:
    """Take the cable to another cluster away, on this side."""
    with alone(home):
        for name, process in running_inits(home, record.programs["init"]).items():
            if name == CONTROL_PLANE:
                link = network.peer_link(other.index)
                for end in (link, *network.relay_links(link)):
                    ip([f"link del {end}"], process.pid, check=False)
            else:
                for command in network.no_routes_to_peer(other.addresses):
                    ip([command], process.pid, check=False)


def running_inits(home: Home, init: str) -> dict[str, Process]:
    """The first process of each machine that runs, by the machine's name."""
    return {
        process.component: process
        for process in processes.of_cluster(home.path)
        if process.argv[0] == init
    }


def cuts(home: Home) -> set[str]:
    """The nodes whose cables are cut on purpose, or all of the cluster."""
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


def host_links() -> list[str]:
    """The host's ends of cables to clusters."""
    return sorted(name for name in os.listdir("/sys/class/net") if name.startswith(LINK_PREFIX))


def filter_tables() -> list[str]:
    """The host's packet filters for clusters."""
    try:
        listing = subprocess.run(
            ["nft", "list", "tables"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
        ).stdout
    except FileNotFoundError:
        return []  # without nft there never was one
    names = [line.split()[-1] for line in listing.splitlines() if line.strip()]
    return sorted(name for name in names if name.startswith(TABLE_PREFIX))


@contextlib.contextmanager
def alone(home: Home) -> Iterator[None]:
    """One at a time changes the network of a cluster."""
    handle = os.open(home.path / "network.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
