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
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.local import registry
from edgewise.local.component import CONTROL_PLANE
from edgewise.local.connecting import connect
from edgewise.local.control_plane.kubeconfigs import context_name
from edgewise.local.errors import LocalError, NoSuchCluster, StartFailed
from edgewise.local.layout import ClusterRecord, Home, homes
from edgewise.local.machines import processes
from edgewise.local.network.cabling import running_inits
from edgewise.local.readiness import Starting, Tell
from edgewise.local.spec import LocalClusterSpec, check_name, differences
from edgewise.local.teardown import changing, take_down

if TYPE_CHECKING:
    from edgewise.kube.client import Client
    from edgewise.local.preparation import Supplies

__all__ = [
    "LocalCluster",
    "LocalClusterSpec",
    "bring_up",
    "down",
    "get",
    "list_clusters",
    "look_around",
    "up",
]


class LocalCluster:
    """A cluster that was started on this machine."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.record = home.read()

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def spec(self) -> LocalClusterSpec:
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

    @property
    def own_address(self) -> str:
        """Where the host finds a program that runs inside the cluster's network."""
        return str(self.record.addresses.control_plane) if self.spec.real else "127.0.0.1"

    def network_entry(self) -> list[str]:
        """What is put before a command to run it inside the cluster's network."""
        if not self.spec.real:
            return []
        inits = running_inits(self.home, self.record.programs["init"])
        if CONTROL_PLANE not in inits:
            raise LocalError(f"cluster {self.name!r} is not running: `edgewise local up` starts it")
        return ["nsenter", f"--net=/proc/{inits[CONTROL_PLANE].pid}/ns/net", "--"]

    def client(self) -> Client:
        """A client with the administrator's rights; use it as an async context manager."""
        return connect(self.kubeconfig)

    def program(self, name: str) -> str:
        """The path of an engine program, such as kubectl."""
        return self.record.programs[name]

    def running(self) -> list[processes.Process]:
        return processes.of_cluster(self.home.path)


def silent(_what: str, _state: str) -> None:
    """For whoever does not want to be told."""


def up(
    spec: LocalClusterSpec, *, tell: Tell = silent, timeout: float | None = None
) -> LocalCluster:
    """Start the cluster, or finish starting it, and wait until it can be used."""
    # Only starting needs certificates and images, which take a third of the time of all imports.
    from edgewise.local.preparation import get_supplies  # noqa: PLC0415

    supplies = get_supplies(spec, tell)
    return asyncio.run(start(spec, supplies, tell, timeout or patience(spec)))


async def bring_up(
    spec: LocalClusterSpec, *, tell: Tell = silent, timeout: float | None = None
) -> LocalCluster:
    """`up` for programs that have an event loop already."""
    from edgewise.local.preparation import get_supplies  # noqa: PLC0415

    supplies = await asyncio.to_thread(get_supplies, spec, tell)
    return await start(spec, supplies, tell, timeout or patience(spec))


async def start(
    spec: LocalClusterSpec, supplies: Supplies, tell: Tell, timeout: float
) -> LocalCluster:
    from edgewise.local.preparation import write_files  # noqa: PLC0415

    home = Home.of(spec.name)
    with changing(home):
        record = claim(home, spec, supplies)
        try:
            await asyncio.to_thread(write_files, home, record, supplies)
        except FileNotFoundError:
            if home.exists():
                raise
            raise StartFailed(f"cluster {home.name!r} was taken down while it began") from None
        attempt = Starting(home, record, tell, timeout)
        await asyncio.to_thread(attempt.ensure_manager)
        async with connect(home.kubeconfig, timeout=10) as client:
            await attempt.until_api_answers(client)
            await attempt.apply_first_objects(client)
            await attempt.create_simulated_nodes(client)
            await attempt.until_nodes_are_ready(client)
            await attempt.until_kwok_keeps_nodes(client)
            await attempt.give_nodes_their_pod_networks(client)
        await attempt.until_names_are_known()
        await attempt.until_places_lead_to_services()
        await attempt.until_it_is_managed()
    return LocalCluster(home)


def claim(home: Home, spec: LocalClusterSpec, supplies: Supplies) -> ClusterRecord:
    record = registry.claim(home, spec, supplies.programs)
    if record.spec != spec:
        raise LocalError(
            f"cluster {spec.name!r} exists with other options ({differences(record.spec, spec)}); "
            "take it down first with "
            f"`edgewise local down --name {spec.name}`, or choose another name"
        )
    return record


def patience(spec: LocalClusterSpec) -> float:
    """Seconds after which a start has failed; generous, for a machine that is busy."""
    return 120.0 + 10.0 * spec.nodes + 0.3 * spec.simulated_nodes


def down(name: str) -> None:
    """Remove the cluster and everything that belongs to it; nothing there is fine."""
    take_down(Home.of(name))


def get(name: str) -> LocalCluster:
    check_name(name)
    home = Home.of(name)
    if not home.exists():
        raise NoSuchCluster(name, [home.name for home in homes() if home.exists()])
    return LocalCluster(home)


def list_clusters() -> list[LocalCluster]:
    return [LocalCluster(home) for home in homes() if home.exists()]


def look_around() -> tuple[list[LocalCluster], dict[str, str]]:
    """The clusters that can be read, and by name what is wrong with the others."""
    found: list[LocalCluster] = []
    troubles: dict[str, str] = {}
    for home in homes():
        try:
            found.append(LocalCluster(home))
        except FileNotFoundError:
            continue  # half-made, or just taken down
        except (LocalError, OSError) as error:
            troubles[home.name] = str(error)
    return found, troubles
