"""The server controller: a pod for each Server, what its game says, and its protected end."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.games import Allocation, Server
from edgewise.gameservers import names
from edgewise.gameservers.server.apply import Budgets, ServerWriter
from edgewise.gameservers.server.callers import Callers, postponed
from edgewise.gameservers.server.failed_starts import FailedStarts
from edgewise.gameservers.server.observe import covers, observe, see_node
from edgewise.gameservers.server.plan import plan_server
from edgewise.gameservers.server.ports import GamePortIndex
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped
from edgewise.workloads.deadlines import moment
from edgewise.workloads.node_changes import NodeChanges

POD_LABELS = names.PROTECTED


def server_of_pod(pod: Pod, _: CacheView) -> Iterable[Key]:
    name = pod.metadata.labels.get(names.PROTECTED)
    return (Key(pod.metadata.namespace, name),) if name else ()


def server_of_allocation(allocation: Allocation, _: CacheView) -> Iterable[Key]:
    """None of one that has no server of its name: it must not look like one left behind."""
    return (allocation.key,) if allocation.spec.server_uid else ()


def server_of_unread_allocation(allocation: Object, _: CacheView) -> Iterable[Key]:
    """One that has a server has its name: a server whose allocation cannot be read is not free."""
    return (allocation.key,)


def servers_on_node(node: Object, cache: CacheView) -> Iterable[Key]:
    pods = cache[Pod].by(by_node, node.metadata.name)
    return [key for pod in pods for key in server_of_pod(pod, cache)]


def servers_of_budget(budget: PodDisruptionBudget, cache: CacheView) -> Iterable[Key]:
    """Of one that is not ours: whose pods it covers too. Of ours only if it is gone."""
    if budget.metadata.name == names.BUDGET and cache[PodDisruptionBudget].get(budget.key):
        return ()
    pods = cache[Pod].all(budget.metadata.namespace)
    return [
        key
        for pod in pods
        if covers(budget, pod.metadata.labels)
        for key in server_of_pod(pod, cache)
    ]


def by_node(pod: Pod) -> str | None:
    return pod.node_name or None


class ServerController(Controller[Server]):
    workers = 32

    def __init__(self, settings: Settings, logs: FailedStarts | None = None) -> None:
        """Without `logs` nothing is kept of games that fail."""
        self._settings = settings
        self._logs = logs
        self._ports = GamePortIndex(settings.ports)
        self._budgets = Budgets()
        self._nodes = NodeChanges(node_facts)
        self._ending: set[Key] = set()
        self._callers = Callers()
        self.watches = (
            mapped(Pod, server_of_pod, labels=POD_LABELS),
            mapped(Allocation, server_of_allocation, unread=server_of_unread_allocation),
            mapped(Node, self._servers_of_node, unread=servers_on_node),
            mapped(Namespace, self._servers_of_namespace),
            mapped(PodDisruptionBudget, servers_of_budget),
        )

    def start(self, cache: CacheView) -> None:
        self._ports.follow(cache[Pod])
        cache[Allocation].subscribe(self._allocation_changed)

    def _allocation_changed(
        self, old: Allocation | None, new: Allocation | None, bulk: bool
    ) -> None:
        if old is None and new is not None and not bulk and not new.spec.retired:
            self._callers.took(self.clock())

    def _servers_of_node(self, node: Node, cache: CacheView) -> Iterable[Key]:
        """Only if something changed that servers care for: nodes report every few seconds."""
        if not self._nodes.matters(node.key, cache[Node].get(node.key)):
            return ()
        return servers_on_node(node, cache)

    def _servers_of_namespace(self, namespace: Namespace, cache: CacheView) -> Iterable[Key]:
        current = cache[Namespace].get(namespace.key)
        ends = current is not None and current.metadata.deleting
        if ends == (namespace.key in self._ending):
            return ()
        (self._ending.add if ends else self._ending.discard)(namespace.key)
        return [server.key for server in cache[Server].all(namespace.metadata.name)]

    async def reconcile(self, server: Server) -> Requeue | None:
        now = self.clock()
        seen = observe(server, self.cache)
        plan = plan_server(seen, now)
        meta = server.metadata
        allocation = self.cache[Allocation].get(server.key)
        later = postponed(
            server.status,
            plan,
            allocation,
            created=moment(allocation.metadata.creation_timestamp) if allocation else None,
            quiet_at=self._callers.quiet_at(),
            now=now,
        )
        if later is not None:
            return Requeue.at(min(later, plan.deadline or later))
        await self._writer(now).carry_out(
            server,
            self.cache[Pod].get(Key(meta.namespace, names.pod_of(meta.name))),
            allocation,
            plan,
        )
        return Requeue.at(plan.deadline)

    async def gone(self, key: Key) -> None:
        """What a Server left that went without us: nobody else would take it away."""
        pod = self.cache[Pod].get(Key(key.namespace, names.pod_of(key.name)))
        allocation = self.cache[Allocation].get(key)
        if allocation is not None and not server_of_allocation(allocation, self.cache):
            allocation = None
        left = [each for each in (pod, allocation) if each is not None]
        if not any(not each.metadata.deleting for each in left):
            return
        try:
            await self.api.get(Server, key.name, key.namespace)
        except NotFound:
            for each in left:
                if not each.metadata.deleting:
                    await self.api.delete(each)

    def _writer(self, now: float) -> ServerWriter:
        budgets = self.cache[PodDisruptionBudget]
        return ServerWriter(
            self.api,
            self._settings,
            self._ports,
            budgets,
            self._budgets,
            logs=self._logs,
            now=now,
        )


def node_facts(node: Node) -> object:
    """What of a node its servers care for."""
    return see_node(node), _evicting(node)


def _evicting(node: Node) -> list[str]:
    return [f"{each.key}={each.value}" for each in node.spec.taints if each.effect == "NoExecute"]
