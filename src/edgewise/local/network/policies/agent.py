"""Keeps the rules of every node what NetworkPolicies want. One agent for all nodes of a cluster.

It lists and watches policies, namespaces and the pods of real nodes, and loads a node's rules
whenever they change, all of them in one transaction. While the API server is away, or this
program is, nodes keep the rules they have; pods that they do not know then have to wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.objects import Object
from edgewise.local.connecting import connect
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.machines.processes import Process
from edgewise.local.machines.supervision import gone
from edgewise.local.network.cabling import nft, running_inits
from edgewise.local.network.commands import NODE_LINK
from edgewise.local.network.policies.attached import (
    Attachment,
    Notice,
    attachments,
    notes_of,
    without_predecessors,
)
from edgewise.local.network.policies.compiler import Endpoint, NamedPort, World
from edgewise.local.network.policies.names import ENFORCER, MARK
from edgewise.local.network.policies.ruleset import removal, ruleset
from edgewise.runtime import Selection, SharedCaches, set_up_logs

_log = logging.getLogger(__name__)
# Changes come in bursts; one load answers all that come within this time.
_GATHER_SECONDS = 0.02
_LOOK_FOR_NODE_SECONDS = 0.25
_FIRST_RETRY = 1.0
_LAST_RETRY = 30.0


class Agent:
    def __init__(self, home: Home, record: ClusterRecord, caches: SharedCaches) -> None:
        self.home = home
        self.record = record
        self.caches = caches
        self.nodes = record.spec.node_names
        self.policies = caches.of(NetworkPolicy)
        self.namespaces = caches.of(Namespace)
        self.pods = {
            node: caches.of(Pod, Selection(fields=f"spec.nodeName={node}")) for node in self.nodes
        }
        self.changed = asyncio.Event()
        self.inits: dict[str, Process] = {}
        # What each node has, as far as it is known.
        self.loaded: dict[str, str] = {}
        self.retries: dict[str, float] = {}
        self.complained: set[str] = set()

    async def run(self) -> None:
        notice = Notice(notes_of(self.home.nodes / node) for node in self.nodes)
        loop = asyncio.get_running_loop()

        def noticed() -> None:
            notice.drain()
            self.changed.set()

        loop.add_reader(notice.fileno(), noticed)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.caches.run())
                # Half of what there is would open what policies forbid.
                await self.caches.wait_synced()
                self.policies.subscribe(self._heard)
                self.namespaces.subscribe(self._heard)
                for cache in self.pods.values():
                    cache.subscribe(self._heard)
                for node in self.nodes:
                    tasks.create_task(self._follow(node))
                self.changed.set()
                await self._keep_loading()
        finally:
            loop.remove_reader(notice.fileno())
            notice.close()

    def _heard(self, old: Object | None, new: Object | None, _bulk: bool) -> None:
        if old is None or new is None or _telling(old) != _telling(new):
            self.changed.set()

    async def _follow(self, node: str) -> None:
        """A node that was started again has no rules, whatever was loaded before."""
        while True:
            found = await asyncio.to_thread(running_inits, self.home, self.record.programs["init"])
            process = found.get(node)
            if process is None:
                await asyncio.sleep(_LOOK_FOR_NODE_SECONDS)
                continue
            self.loaded.pop(node, None)
            self.retries.pop(node, None)
            self.inits[node] = process
            self.changed.set()
            await gone(process)
            self.inits.pop(node, None)

    async def _keep_loading(self) -> None:
        while True:
            await self.changed.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self.changed.clear()
            policies = list(self.policies)
            wanted = await asyncio.to_thread(self._wanted, policies, self._endpoints())
            mark = self.home.path / MARK
            if len(self.policies):
                mark.touch()
            await asyncio.gather(
                *(self._load(node, wanted[node], len(policies)) for node in [*self.inits])
            )
            if not len(self.policies) and set(self.loaded.values()) <= {removal()}:
                mark.unlink(missing_ok=True)

    def _endpoints(self) -> list[Endpoint]:
        found: list[Endpoint] = []
        for node in self.nodes:
            folder = notes_of(self.home.nodes / node)
            for attached in without_predecessors(attachments(node, folder)):
                pod = self.pods[node].find(attached.name, attached.namespace)
                if pod is not None and pod.metadata.uid == attached.uid:
                    found.append(endpoint(pod, attached))
        return found

    def _wanted(self, policies: list[NetworkPolicy], endpoints: list[Endpoint]) -> dict[str, str]:
        """The rules of each node."""
        if not policies:
            return dict.fromkeys(self.nodes, removal())
        namespaces = {each.metadata.name: each.metadata.labels for each in self.namespaces}
        world = World(endpoints, namespaces, policies)
        networks = self.record.addresses.pods_of
        texts = {
            node: ruleset(world.verdicts(node), [networks(number)], NODE_LINK)
            for number, node in enumerate(self.nodes, start=1)
        }
        for complaint in sorted({*world.complaints} - self.complained):
            _log.warning("%s", complaint)
        self.complained = {*world.complaints}
        return texts

    async def _load(self, node: str, text: str, count: int) -> None:
        process = self.inits.get(node)
        if process is None or self.loaded.get(node) == text:
            return
        begun = time.monotonic()
        try:
            await asyncio.to_thread(nft, text, process.pid)
        except (LocalError, OSError) as error:
            pause = self.retries[node] = min(
                _LAST_RETRY, 2 * self.retries.get(node, _FIRST_RETRY / 2)
            )
            why = str(error).partition("\n")[0]
            _log.error("%s keeps its former rules: %s; next try in %.0f s", node, why, pause)
            asyncio.get_running_loop().call_later(pause, self.changed.set)
            return
        self.retries.pop(node, None)
        if self.inits.get(node) is process:
            self.loaded[node] = text
        took = 1000 * (time.monotonic() - begun)
        rules = f"the rules of {count} NetworkPolic{'y' if count == 1 else 'ies'}"
        if text == removal():
            rules = "no rules"
        _log.info("%s has %s, loaded in %.0f ms", node, rules, took)


def _telling(obj: Object) -> Any:
    """The part of an object on which rules depend; most changes of pods are of another."""
    if isinstance(obj, NetworkPolicy):
        return obj.spec
    if isinstance(obj, Pod):
        return obj.metadata.uid, obj.metadata.labels
    return obj.metadata.labels


def endpoint(pod: Pod, attached: Attachment) -> Endpoint:
    return Endpoint(
        namespace=attached.namespace,
        name=attached.name,
        node=attached.node,
        labels=pod.metadata.labels,
        addresses=attached.addresses,
        ports=tuple(named_ports(pod.spec)),
    )


def named_ports(spec: dict[str, Any]) -> Iterable[NamedPort]:
    """Of containers, and of those that run beside them from the beginning."""
    beside = [
        each for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always"
    ]
    for container in (*(spec.get("containers") or []), *beside):
        for port in container.get("ports") or []:
            if port.get("name"):
                protocol = port.get("protocol") or "TCP"
                yield NamedPort(port["name"], protocol, port["containerPort"])


async def _enforce(home: Home) -> None:
    async with connect(home.component_kubeconfig(ENFORCER)) as client:
        await Agent(home, home.read(), SharedCaches(client)).run()


def enforce(folder: str) -> None:
    set_up_logs()
    asyncio.run(_enforce(Home(Path(folder))))
