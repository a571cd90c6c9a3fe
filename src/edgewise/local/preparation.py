"""Everything that has to be there before a cluster's programs start: programs, images, files."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from edgewise.local.control_plane.identities import (
    ADMIN,
    AUTHORITIES,
    SERVICE_ACCOUNTS,
    USERS,
    leaves,
)
from edgewise.local.control_plane.kubeconfigs import write_kubeconfig
from edgewise.local.control_plane.pki import ensure_pki
from edgewise.local.control_plane.programs import AUTHENTICATION, KWOK_CONFIG, corefile
from edgewise.local.engine.finding import find_engine
from edgewise.local.errors import LocalError
from edgewise.local.images.building import ImageError, pause_image, python_image, sidecar_image
from edgewise.local.images.golden import copy_store, golden_store
from edgewise.local.layout import ClusterRecord, Home, nearest_folder, state_root, write_atomically
from edgewise.local.machines.container_programs import container_programs
from edgewise.local.machines.node_files import node_files, place_files
from edgewise.local.network import distances
from edgewise.local.readiness import Tell
from edgewise.local.spec import LocalClusterSpec

_API_SERVER_ALONE = ("etcd", "kube-apiserver", "kubectl")
_CONTROLLERS = ("kube-controller-manager", "kube-scheduler")
_REAL_NODES = ("kubelet", "kube-proxy", "coredns", "init")
_ROOM = 300 << 20
_ROOM_PER_NODE = 200 << 20
_INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_ENOUGH_INSTANCES = 1024


class Supplies(msgspec.Struct, frozen=True):
    """What a cluster is made of; it may take long to get, and belongs to no cluster."""

    programs: dict[str, str]
    # Where nodes get their images from; None where there are no real nodes.
    image_store: Path | None = None


def get_supplies(spec: LocalClusterSpec, tell: Tell) -> Supplies:
    if not Home.of(spec.name).exists():  # one that is there has had its room for long
        check_room(state_root(), spec)
    names = programs_for(spec)
    containers = container_programs() if spec.real else {}
    engine = find_engine(tell, programs=names)
    programs = {name: str(engine.path(name)) for name in names} | containers
    if not spec.real:
        return Supplies(programs)
    allow_many_watchers(_INOTIFY_INSTANCES, tell)
    images = [pause_image(Path(programs["init"]), tell)]
    try:
        images += [python_image(tell), sidecar_image(tell)]
    except ImageError as error:
        # A cluster without it is still a cluster; other images can be loaded.
        tell("python image", f"left out: {error}")
    return Supplies(programs, golden_store(images, programs["containerd"], tell))


def check_room(place: Path, spec: LocalClusterSpec) -> None:
    """Better no cluster than one whose disk is full when it has just begun."""
    place = nearest_folder(place)
    needed = _ROOM + _ROOM_PER_NODE * spec.nodes
    free = shutil.disk_usage(place).free
    if free < needed:
        raise LocalError(
            f"cluster {spec.name!r} needs {needed >> 20} MiB of disk, and {place} has "
            f"{free >> 20}: free some space, or set EDGEWISE_STATE_DIR to a roomier place"
        )


def allow_many_watchers(limit: Path, tell: Tell) -> None:
    """Kubelet and containerd watch files; a usual limit is spent by about ten nodes."""
    try:
        if int(limit.read_text()) < _ENOUGH_INSTANCES:
            limit.write_text(str(_ENOUGH_INSTANCES))
            tell("inotify", f"raised fs.inotify.max_user_instances to {_ENOUGH_INSTANCES}")
    except OSError as error:
        tell("inotify", f"{limit} cannot be raised ({error.strerror}): a few nodes only")


def programs_for(spec: LocalClusterSpec) -> list[str]:
    return [
        *_API_SERVER_ALONE,
        *(_CONTROLLERS if spec.controllers else ()),
        *(("kwok",) if spec.simulated_nodes else ()),
        *(_REAL_NODES if spec.real else ()),
    ]


def write_files(home: Home, record: ClusterRecord, supplies: Supplies) -> None:
    """Everything the programs read when they start. May be repeated."""
    for folder in (home.logs, home.config):
        folder.mkdir(exist_ok=True, mode=0o700)
    ensure_pki(home.pki, AUTHORITIES, leaves(record), [SERVICE_ACCOUNTS])
    write_kubeconfig(home, record.server, ADMIN, home.kubeconfig)
    for component in (*USERS, *record.spec.node_names):
        if component != ADMIN:
            path = home.component_kubeconfig(component)
            write_kubeconfig(home, record.server, component, path)
    write_atomically(home.config / "kwok.yaml", KWOK_CONFIG.encode())
    write_atomically(home.config / "Corefile", corefile(home).encode())
    if record.spec.authentication:
        write_atomically(home.config / AUTHENTICATION, record.spec.authentication.encode())
    for number, node in enumerate(record.spec.node_names, start=1):
        for name, text in node_files(home, record, number).items():
            path = home.nodes / node / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            write_atomically(path, text.encode(), mode=0o644)
        images = home.nodes / node / "lib" / "containerd"
        if supplies.image_store is not None and not images.exists():
            copy_store(supplies.image_store, images)
    for place in record.spec.places:
        home.place(place).mkdir(parents=True, exist_ok=True, mode=0o755)
        for name, text in place_files(home, record, place).items():
            write_atomically(home.place(place) / name, text.encode(), mode=0o644)
        distances.write_first(home, record, place)
