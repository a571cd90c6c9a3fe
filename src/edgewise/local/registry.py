"""Which cluster has which index, and the lock under which that is decided.

Root's clusters share the addresses of the machine, so root's registry is one for
the machine, whatever HOME is. Other users have clusters on loopback only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, Ports, state_root
from edgewise.local.network.addresses import free_index
from edgewise.local.network.host_networks import networks_of_host
from edgewise.local.spec import LocalClusterSpec

# Below the range from which the kernel takes the ports of outgoing connections.
LOOPBACK_PORTS = range(22000, 29000)
_SCRATCH = "platform-"


def registry_folder() -> Path:
    return Path("/run/edgewise") if os.geteuid() == 0 else state_root() / "registry"


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The registry, with nobody else in it."""
    folder = registry_folder()
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever had the lock before may have removed the folder.
            if not _same(handle, folder):
                continue
            yield folder
            with contextlib.suppress(OSError):
                folder.rmdir()  # leaves nothing behind once the last cluster is gone
            return
        finally:
            os.close(handle)


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def entries(folder: Path) -> dict[int, Home]:
    """Claimed indexes. A claim whose cluster folder is gone is no claim."""
    claims = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name.isdigit() and entry.is_symlink():
            home = Home(Path(os.readlink(entry)))
            if home.path.is_dir():
                claims[int(entry.name)] = home
            else:
                entry.unlink(missing_ok=True)
    return claims


def claim(home: Home, spec: LocalClusterSpec, programs: dict[str, str]) -> ClusterRecord:
    """Decide what a new cluster needs to be decided, and write it down for good."""
    with locked() as folder:
        if home.exists():
            record = home.read()
            _enter(folder, record.index, home)
            if not all(os.path.exists(path) for path in record.programs.values()):
                # The engine has moved since; a cluster that is stopped may follow it.
                record = msgspec.structs.replace(record, programs=programs)
                home.write(record)
            return record
        taken = entries(folder)
        index = free_index(taken, networks_of_host(home.host_link) if os.geteuid() == 0 else ())
        if index is None:
            raise LocalError(
                "no free address range is left for one more cluster; "
                "see `edgewise local list` and take one down"
            )
        ports = None if spec.real else _free_ports(home, taken.values())
        record = ClusterRecord(spec=spec, index=index, programs=programs, ports=ports)
        home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        _enter(folder, index, home)
        home.write(record)
        return record


def _enter(folder: Path, index: int, home: Home) -> None:
    """Take an index; after a restart of the machine an old cluster takes its own again."""
    owner = entries(folder).get(index)
    if owner is None:
        (folder / str(index)).symlink_to(home.path)
    elif owner.path != home.path:
        raise LocalError(
            f"the addresses of cluster {home.name!r} are in use by the cluster in {owner.path}; "
            f"take one of them down (`edgewise local down --name {home.name}`)"
        )


def release(home: Home) -> None:
    """Give the index back, and remove the scratch folders."""
    with locked() as folder:
        for index, owner in entries(folder).items():
            if owner.path == home.path:
                (folder / str(index)).unlink(missing_ok=True)
        for path in folder.glob(f"{_SCRATCH}{home.short}-*"):
            shutil.rmtree(path, ignore_errors=True)


def new_scratch(home: Home) -> Path:
    """A folder for what needs a short path, such as sockets; it goes with the cluster."""
    with locked() as folder:
        return Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{home.short}-", dir=folder))


def remove_scratch(path: Path) -> None:
    with locked():
        shutil.rmtree(path, ignore_errors=True)


def ownerless_scratch(owners: Iterable[Home]) -> list[Path]:
    """Scratch folders of clusters that are gone."""
    kept = tuple(f"{_SCRATCH}{home.short}-" for home in owners)
    found = registry_folder().glob(f"{_SCRATCH}*")
    return sorted(path for path in found if not path.name.startswith(kept))


def _free_ports(home: Home, others: Iterable[Home]) -> Ports:
    """Three ports that nobody listens on and no other cluster was promised."""
    promised: set[int] = set()
    for other in others:
        with contextlib.suppress(LocalError, OSError):
            ports = other.read().ports
            promised |= {ports.api, ports.etcd, ports.etcd_peer} if ports else set()
    # Users do not see each other's registries: each cluster begins to look somewhere else.
    offset = int(home.short, 16) % len(LOOPBACK_PORTS)
    found: list[int] = []
    for port in (*LOOPBACK_PORTS[offset:], *LOOPBACK_PORTS[:offset]):
        if port not in promised and _bindable(port):
            found.append(port)
            if len(found) == 3:
                return Ports(*found)
    raise LocalError(
        f"no three free ports between {LOOPBACK_PORTS.start} and {LOOPBACK_PORTS.stop} "
        "on 127.0.0.1; stop something that listens there"
    )


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # As the programs will do it: a port in TIME_WAIT is as good as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
