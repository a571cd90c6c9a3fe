"""Local clusters: bring one up, find it, take it down.

    cluster = up(ClusterSpec(name="edge-1", simulated_nodes=10))
    ...
    down("edge-1")

`up` writes down what is wanted, starts a manager that keeps the programs running,
and gets the cluster ready through its API. Both are idempotent, and whatever is
killed on the way, the next `up` or `down` goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.local import manager, processes, registry
from edgewise.local.container_programs import container_programs
from edgewise.local.control_plane import KWOK_CONFIG, corefile
from edgewise.local.engine import find_engine
from edgewise.local.errors import LocalError, NoSuchCluster
from edgewise.local.golden import copy_store, golden_store
from edgewise.local.identities import ADMIN, AUTHORITIES, SERVICE_ACCOUNTS, USERS, leaves
from edgewise.local.images import ImageError, pause_image, python_image
from edgewise.local.kubeconfigs import context_name, write_kubeconfig
from edgewise.local.layout import ClusterRecord, Home, homes, write_atomically
from edgewise.local.node_files import node_files
from edgewise.local.pki import ensure_pki
from edgewise.local.readiness import Starting, Tell
from edgewise.local.spec import ClusterSpec
from edgewise.local.teardown import take_down

__all__ = ["Cluster", "ClusterSpec", "bring_up", "down", "get", "list_clusters", "up"]

_API_SERVER_ALONE = ("etcd", "kube-apiserver", "kubectl")
_CONTROLLERS = ("kube-controller-manager", "kube-scheduler")
_REAL_NODES = ("kubelet", "kube-proxy", "coredns", "init")


class Cluster:
    """A cluster that was started on this machine."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.record = home.read()

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def spec(self) -> ClusterSpec:
        return self.record.spec

    @property
    def kubeconfig(self) -> Path:
        return self.home.kubeconfig

    @property
    def context(self) -> str:
        return context_name(self.name)

    @property
    def server(self) -> str:
        return self.record.server

    @property
    def host_address(self) -> str:
        """Where the API server finds a program of the host, such as a webhook under test."""
        return str(self.record.addresses.host) if self.spec.real else "127.0.0.1"

    def client(self) -> Client:
        """A client with the administrator's rights; use it as an async context manager."""
        return Client(load_access(self.kubeconfig))

    def program(self, name: str) -> str:
        """The path of an engine program, such as kubectl."""
        return self.record.programs[name]

    def running(self) -> list[processes.Process]:
        return processes.of_cluster(self.home.path)


def silent(_what: str, _state: str) -> None:
    """For whoever does not want to be told."""


def up(spec: ClusterSpec, *, tell: Tell = silent, timeout: float | None = None) -> Cluster:
    """Start the cluster, or finish starting it, and wait until it can be used."""
    return asyncio.run(bring_up(spec, tell=tell, timeout=timeout))


async def bring_up(
    spec: ClusterSpec, *, tell: Tell = silent, timeout: float | None = None
) -> Cluster:
    """`up` for programs that have an event loop already."""
    needed = programs_for(spec)
    engine = await asyncio.to_thread(find_engine, tell, programs=needed)
    home = Home.of(spec.name)
    with starting(home):
        programs = {name: str(engine.path(name)) for name in needed}
        if spec.real:
            programs |= container_programs()
        record = registry.claim(home, spec, programs)
        if record.spec != spec:
            raise LocalError(
                f"cluster {spec.name!r} exists with other options; take it down first with "
                f"`edgewise local down --name {spec.name}`, or choose another name"
            )
        await asyncio.to_thread(write_files, home, record, tell)
        attempt = Starting(home, record, tell, timeout or patience(spec))
        manager.start(home)
        async with Client(load_access(home.kubeconfig), timeout=10) as client:
            await attempt.until_api_answers(client)
            await attempt.apply_first_objects(client)
            await attempt.create_simulated_nodes(client)
            await attempt.until_nodes_are_ready(client)
    return Cluster(home)


def programs_for(spec: ClusterSpec) -> list[str]:
    return [
        *_API_SERVER_ALONE,
        *(_CONTROLLERS if spec.controllers else ()),
        *(("kwok",) if spec.simulated_nodes else ()),
        *(_REAL_NODES if spec.real else ()),
    ]


def patience(spec: ClusterSpec) -> float:
    """Seconds after which a start has failed; generous, for a machine that is busy."""
    return 120.0 + 10.0 * spec.nodes + 0.3 * spec.simulated_nodes


def write_files(home: Home, record: ClusterRecord, tell: Tell) -> None:
    """Everything the programs read when they start."""
    for folder in (home.logs, home.config):
        folder.mkdir(exist_ok=True, mode=0o700)
    ensure_pki(home.pki, AUTHORITIES, leaves(record), [SERVICE_ACCOUNTS])
    server = record.server
    write_kubeconfig(home, server, ADMIN, home.kubeconfig)
    for component in USERS:
        if component != ADMIN:
            path = home.component_kubeconfig(component)
            write_kubeconfig(home, server, component, path)
    write_atomically(home.config / "kwok.yaml", KWOK_CONFIG.encode())
    write_atomically(home.config / "Corefile", corefile(home).encode())
    for number, node in enumerate(record.spec.node_names, start=1):
        write_kubeconfig(home, server, node, home.component_kubeconfig(node))
        for name, text in node_files(home, record, number).items():
            path = home.nodes / node / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            write_atomically(path, text.encode(), mode=0o644)
    fill_image_stores(home, record, tell)


def fill_image_stores(home: Home, record: ClusterRecord, tell: Tell) -> None:
    """Give each new node its images."""
    targets = [home.nodes / node / "lib" / "containerd" for node in record.spec.node_names]
    empty = [target for target in targets if not target.exists()]
    if empty:
        images = [pause_image(Path(record.programs["init"]), tell)]
        try:
            images.append(python_image(tell))
        except ImageError as error:
            # A cluster without it is still a cluster; other images can be loaded.
            tell("python image", f"left out: {error}")
        store = golden_store(images, record.programs["containerd"], tell)
        for target in empty:
            copy_store(store, target)


@contextlib.contextmanager
def starting(home: Home) -> Iterator[None]:
    """One `up` at a time for each cluster; a second one waits and finds the work done."""
    while True:
        home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if home.going_down.exists():
            take_down(home)  # finish what a killed `down` began
            continue
        handle = os.open(home.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if home.path.exists() and os.path.samestat(os.fstat(handle), home.path.stat()):
                yield
                return
        finally:
            os.close(handle)


def down(name: str) -> None:
    """Remove the cluster and everything that belongs to it; nothing there is fine."""
    take_down(Home.of(name))


def get(name: str) -> Cluster:
    home = Home.of(name)
    if not home.exists():
        raise NoSuchCluster(name, [home.name for home in homes() if home.exists()])
    return Cluster(home)


def list_clusters() -> list[Cluster]:
    return [Cluster(home) for home in homes() if home.exists()]
