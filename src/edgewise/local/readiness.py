"""Brings a started cluster to the point where it can be used, and waits for that."""

from __future__ import annotations

import asyncio
import http.client
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from edgewise.kube.errors import AlreadyExists, ApiError, KubeError
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Node
from edgewise.local import manager, progress
from edgewise.local.control_plane.bootstrap import first_objects, simulated_node
from edgewise.local.control_plane.programs import DNS_READY_PORT
from edgewise.local.errors import StartFailed
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.machines.supervision import last_words
from edgewise.local.network.service_rules import leads_to_services

if TYPE_CHECKING:
    from edgewise.kube.client import Client

# A component that ended this often while the cluster was starting will not come up.
TOO_OFTEN = 4
_AT_ONCE = 16
_LOOK_EVERY = 1.0

Tell = Callable[[str, str], None]


class Starting:
    """One attempt to get a cluster ready, with one deadline for all of it."""

    def __init__(self, home: Home, record: ClusterRecord, tell: Tell, timeout: float) -> None:
        self.home = home
        self.record = record
        self.tell = tell
        self.deadline = time.monotonic() + timeout
        self.events = progress.Reader(home.progress, from_end=True)
        self.deaths: Counter[str] = Counter()
        # Managers started in a row of which none came so far as to say so.
        self.stillborn = 0
        self.next_look = time.monotonic() + _LOOK_EVERY

    def watch_components(self, waiting_for: str) -> None:
        """Tell what the manager does; give up when it cannot work."""
        if self.home.going_down.exists() or not self.home.exists():
            raise StartFailed(f"cluster {self.home.name!r} was taken down while it was starting")
        for event in self.events.new():
            self.tell(event.what, event.state)
            if event.what == manager.NAME and event.state == progress.STARTED:
                self.stillborn = 0
            if event.state != progress.ENDED:
                continue
            self.deaths[event.what] += 1
            if self.deaths[event.what] >= TOO_OFTEN:
                raise StartFailed(
                    f"{event.what} of cluster {self.home.name!r} keeps ending: "
                    f"{event.detail or 'its log says nothing'}; {advice(event.detail)}"
                )
        if time.monotonic() > self.deadline:
            raise StartFailed(
                f"cluster {self.home.name!r} is not ready in time, it waits for {waiting_for}; "
                f"see `edgewise local logs --name {self.home.name} kube-apiserver`"
            )

    async def pause(self, waiting_for: str, seconds: float = 0.05) -> None:
        self.watch_components(waiting_for)
        if time.monotonic() > self.next_look:
            self.next_look = time.monotonic() + _LOOK_EVERY
            # The manager and its standby might both have been killed.
            await asyncio.to_thread(self.ensure_manager)
        await asyncio.sleep(seconds)

    def ensure_manager(self) -> None:
        """Start one if there is none; give up when none of them can live."""
        if self.stillborn >= TOO_OFTEN:
            why = last_words(self.home.logs, manager.NAME) or "its log says nothing"
            raise StartFailed(
                f"the manager of cluster {self.home.name!r} ends at once: {why}; "
                f"mend what {sys.executable} lacks, or install edgewise again"
            )
        self.stillborn += manager.ensure(self.home)

    async def until_it_is_managed(self) -> None:
        """Where all else runs already, the manager is the last to come."""
        while not await asyncio.to_thread(manager.runs, self.home):
            await self.pause("its manager")

    async def until_api_answers(self, client: Client) -> None:
        while True:
            try:
                # Briefly: while the network is being made, a first packet may get lost.
                async with asyncio.timeout(0.5):
                    await client.request("GET", "/readyz")
                self.tell("API server", "ready")
                return
            except (KubeError, TimeoutError):
                await self.pause("the API server")

    async def apply_first_objects(self, client: Client) -> None:
        for obj in first_objects(self.record):
            await self.persistently(partial(client.apply, obj))

    async def create_simulated_nodes(self, client: Client) -> None:
        spec = self.record.spec
        limit = asyncio.Semaphore(_AT_ONCE)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

        async def create(number: int) -> None:
            body = msgspec.json.encode(simulated_node(self.record, number, now))
            async with limit:
                try:
                    await self.persistently(
                        lambda: client.request(
                            "POST", "/api/v1/nodes", body=body, content_type="application/json"
                        )
                    )
                except AlreadyExists:
                    return

        await asyncio.gather(*(create(n) for n in range(1, spec.simulated_nodes + 1)))
        if spec.simulated_nodes:
            self.tell("simulated nodes", "created")

    async def persistently(self, call: Callable[[], Any]) -> None:
        """Repeat what fails because the API server is only just there."""
        while True:
            try:
                await call()
                return
            except AlreadyExists:
                raise
            except ApiError as error:
                if error.status < 500 and error.status not in (403, 404, 429):
                    raise
            except KubeError:
                pass
            await self.pause("the API server to accept the first objects", 0.2)

    async def until_kwok_keeps_nodes(self, client: Client) -> None:
        """Simulated nodes are born ready; that somebody keeps them so shows in their leases."""
        for name in self.record.spec.simulated_names[:1]:
            while True:
                try:
                    await client.get(Lease, name, "kube-node-lease")
                    return
                except KubeError:
                    await self.pause("kwok to take care of the simulated nodes")

    async def give_nodes_their_pod_networks(self, client: Client) -> None:
        """Say in the API which addresses a node's pods get; the node itself knows already."""
        for number, name in enumerate(self.record.spec.node_names, start=1):
            network = str(self.record.addresses.pods_of(number))
            if not (await client.get(Node, name)).spec.pod_cidr:
                body = {"spec": {"podCIDR": network, "podCIDRs": [network]}}
                await self.persistently(partial(client.patch, Node, name, body=body))

    async def until_names_are_known(self) -> None:
        """Before CoreDNS has read all Services, a name that exists is one that does not."""
        if self.record.spec.real:
            while not await asyncio.to_thread(
                knows_names, str(self.record.addresses.control_plane)
            ):
                await self.pause("CoreDNS", 0.1)

    async def until_places_lead_to_services(self) -> None:
        for place in self.record.spec.places:
            while not await asyncio.to_thread(leads_to_services, self.home, self.record, place):
                await self.pause(f"kube-proxy of place {place}", 0.1)

    async def until_nodes_are_ready(self, client: Client) -> None:
        wanted = {*self.record.spec.node_names, *self.record.spec.simulated_names}
        while wanted:
            try:
                nodes = (await client.list(Node)).items
            except KubeError:
                nodes = []
            ready = {node.metadata.name for node in nodes if usable(node)}
            missing = wanted - ready
            self.tell("nodes", f"{len(wanted) - len(missing)} of {len(wanted)} ready")
            if not missing:
                return
            example = min(missing)
            await self.pause(f"node {example}", 0.1 if len(wanted) < 50 else 0.5)


def knows_names(host: str) -> bool:
    connection = http.client.HTTPConnection(host, DNS_READY_PORT, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def advice(detail: str) -> str:
    """What to do about what a program said before it ended."""
    known = {
        "address already in use": "something else has its port: stop that, or start again",
        "no space left": "free some disk space",
        "too many open files": "raise fs.inotify.max_user_instances with sysctl",
        "permission denied": "check who owns its files",
    }
    lower = detail.lower()
    found = next((said for words, said in known.items() if words in lower), "")
    return found or "`edgewise local doctor` may know why, `up --keep` keeps its log"


def usable(node: Node) -> bool:
    """Ready, and no longer marked as not being so: pods may be scheduled to it."""
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    marked = any(taint.key.startswith("node.kubernetes.io/") for taint in node.spec.taints)
    return ready and not marked
