"""Where a cluster keeps its files, and the names that are derived from that place.

Everything a cluster makes outside its folder (processes, links, filter tables,
cgroups) carries a name that follows from the folder, so it can be found again
from nothing else.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from edgewise.local.errors import LocalError
from edgewise.local.network.addresses import AddressPlan
from edgewise.local.scratch import unfinished
from edgewise.local.spec import LocalClusterSpec

LINK_PREFIX = "ew-"
TABLE_PREFIX = "edgewise-"
CGROUP = "edgewise"
# Of folders that are about to be removed.
GONE_PREFIX = ".gone-"


def state_root() -> Path:
    """Where this user's clusters are kept."""
    named = os.environ.get("EDGEWISE_STATE_DIR")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state").absolute() / "edgewise"


def nearest_folder(place: Path) -> Path:
    """The part of `place` that is there already."""
    found = place
    while not found.exists():
        found = found.parent
    if not found.is_dir():
        raise LocalError(
            f"clusters cannot be kept in {place}, because {found} is not a folder: "
            "set EDGEWISE_STATE_DIR to one"
        )
    return found


class Ports(msgspec.Struct, frozen=True):
    """Loopback ports of a cluster without a network of its own."""

    api: int
    etcd: int
    etcd_peer: int


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided once, when a cluster is made, and kept in its folder."""

    spec: LocalClusterSpec
    index: int
    programs: dict[str, str]
    ports: Ports | None = None

    @property
    def addresses(self) -> AddressPlan:
        return AddressPlan(self.index)

    @property
    def api_host(self) -> str:
        return str(self.addresses.control_plane) if self.spec.real else "127.0.0.1"

    @property
    def api_port(self) -> int:
        return self.ports.api if self.ports else 6443

    @property
    def server(self) -> str:
        return f"https://{self.api_host}:{self.api_port}"


class Home:
    """The folder of one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.record_file = path / "cluster.json"
        self.pki = path / "pki"
        self.logs = path / "logs"
        self.config = path / "config"
        self.etcd = path / "etcd"
        self.nodes = path / "nodes"
        self.places = path / "places"
        self.kubeconfig = path / "kubeconfig"
        self.merged = path / "merged.json"
        self.progress = path / "progress.jsonl"
        self.going_down = path / "going-down"
        self.manager_lock = path / "manager.lock"
        self.cuts = path / "cuts"
        # There while the manager is to keep operator and gateway running, too.
        self.platform = path / "platform.json"

    @classmethod
    def of(cls, name: str, root: Path | None = None) -> Home:
        return cls((root or state_root()) / "clusters" / name)

    @property
    def short(self) -> str:
        """Eight characters that no other cluster on this machine has."""
        return hashlib.sha256(os.fsencode(self.path)).hexdigest()[:8]

    @property
    def host_link(self) -> str:
        return LINK_PREFIX + self.short

    @property
    def filter_table(self) -> str:
        return TABLE_PREFIX + self.short

    @property
    def cgroup(self) -> str:
        return f"{CGROUP}/{self.name}-{self.short}"

    def exists(self) -> bool:
        return self.record_file.exists()

    def read(self) -> ClusterRecord:
        try:
            return msgspec.json.decode(self.record_file.read_bytes(), type=ClusterRecord)
        except (msgspec.MsgspecError, ValueError) as error:
            raise LocalError(
                f"{self.record_file} cannot be read ({error}); "
                f"remove the cluster with `edgewise local down --name {self.name}`"
            ) from error

    def write(self, record: ClusterRecord) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self.record_file, msgspec.json.format(msgspec.json.encode(record)))

    def place(self, name: str) -> Path:
        """The folder of one place."""
        return self.places / name

    @property
    def operator_kubeconfig(self) -> Path:
        """The operator is somebody of its own: some things are refused to administrators."""
        own = self.component_kubeconfig("operator")
        return own if own.exists() else self.kubeconfig  # of a cluster from before that

    def component_kubeconfig(self, component: str) -> Path:
        return self.config / f"{component}.kubeconfig"


def homes(root: Path | None = None) -> list[Home]:
    """All cluster folders of this user, also half-made ones."""
    folder = (root or state_root()) / "clusters"
    if not folder.is_dir():
        return []
    return [
        Home(path)
        for path in sorted(folder.iterdir())
        if path.is_dir() and not path.name.startswith(".")
    ]


def certificate(folder: Path, name: str) -> Path:
    return folder / f"{name}.crt"


def key(folder: Path, name: str) -> Path:
    return folder / f"{name}.key"


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """All of the file or none of it, also when this process is killed on the way."""
    partial = unfinished(path)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
    partial.replace(path)
