"""Game servers under faults: nodes that schedule by ports, a referee who sees every pod that is
deleted and every server that is taken, and what must hold when all has come to rest."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import yaml

from edgewise.api.games import Allocation, Fleet, GameType, Server
from edgewise.api.installation import install
from edgewise.gameservers import names
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import Forbidden, KubeError, NotFound
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import number
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.testing.eventually import eventually
from edgewise.workloads.pods_seen import host_ports_of
from tests.integration.conftest import ApiServer
from tests.integration.gameservers.game_stage import GameStage
from tests.integration.gameservers.stage import Kubelets, make_node

PORTS = "7000-7019"
NO_PORT = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
_ENDED = ("Failed", "Succeeded")


class Nodes(Kubelets):
    """As kube-scheduler does it: no two pods with one port on a node."""

    def __init__(self, client: Client, namespace: str, nodes: list[str]) -> None:
        super().__init__(client, namespace, nodes)
        self.names = nodes
        self._bound: dict[str, tuple[str, frozenset[int]]] = {}  # by uid of a pod

    async def _tend_once(self, pod: Pod) -> None:
        if pod.metadata.deleting or pod.node_name:
            return await super()._tend_once(pod)
        wanted = frozenset(host_ports_of(pod).values())
        node = self._free(wanted)
        if node is None:
            await self._cannot_schedule(pod)
            return None
        self._bound[pod.metadata.uid] = (node, wanted)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.metadata.name},
            "target": {"kind": "Node", "name": node},
        }
        path = Pod.KIND.path(self._namespace, pod.metadata.name)
        await self._client.request("POST", f"{path}/binding", body=msgspec.json.encode(body))
        return None

    def _free(self, wanted: frozenset[int]) -> str | None:
        here = {pod.metadata.uid for pod in self._pods.all() if pod.status.phase not in _ENDED}
        self._bound = {uid: place for uid, place in self._bound.items() if uid in here}
        load = Counter(dict.fromkeys(self.names, 0))
        load.update(node for node, _ in self._bound.values())
        for node, _ in reversed(load.most_common()):
            if not any(at == node and ports & wanted for at, ports in self._bound.values()):
                return node
        return None

    async def _cannot_schedule(self, pod: Pod) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": NO_PORT,
        }
        await self._client.patch(
            Pod,
            pod.metadata.name,
            self._namespace,
            body={"status": {"phase": "Pending", "conditions": [condition]}},
            subresource="status",
        )


class Referee:
    """Sees what the API server says, and judges at the end.

    `hold` is called when somebody was told of an Allocation, `permit` before anything happens that
    lets its server go: its game allows it, it is released, somebody kills it. Between the two its
    pod may not be deleted.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._caches = SharedCaches(client)
        here = Selection(namespace=namespace)
        self._pods = self._caches.of(Pod, here)
        self._allocations = self._caches.of(Allocation, here)
        self._servers = self._caches.of(Server, here)
        self._taken: dict[str, dict[str, int]] = {}  # uid of a server: Allocation, and since when
        self._deleted: list[tuple[str, str, int]] = []  # pod, uid of its server, when
        self._seen: set[str] = set()
        self._numbers: dict[tuple[str, str], set[str]] = {}
        self._held: set[str] = set()
        self._permitted: set[str] = set()
        self._asking: set[str] = set()  # uids of servers that are only asked, never taken
        self.broken: list[str] = []

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Referee]:
        keeping = asyncio.create_task(self._caches.run())
        self._pods.subscribe(self._pod_changed)
        self._allocations.subscribe(self._allocation_changed)
        self._servers.subscribe(self._server_changed)
        try:
            await eventually(lambda: self._caches.synced, within=30)
            yield self
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    def hold(self, allocation: str) -> None:
        """By the uid of an Allocation."""
        self._held.add(allocation)

    def permit(self, allocation: str) -> None:
        """By the uid of an Allocation."""
        self._permitted.add(allocation)

    def ask_only(self, server: str) -> None:
        """By the uid of a server that has to be asked though nobody has it."""
        self._asking.add(server)

    def allow(self, server: str) -> None:
        self._asking.discard(server)

    def _pod_changed(self, old: Pod | None, new: Pod | None, _: bool) -> None:
        pod = new or old
        if pod is None or names.PROTECTED not in pod.metadata.labels:
            return
        uid = pod.metadata.uid
        ended = pod.status.phase in _ENDED
        going = new is None or new.metadata.deleting
        if not going or ended or uid in self._seen:
            return
        self._seen.add(uid)
        owner = next((each.uid for each in pod.metadata.owner_references), "")
        if owner in self._asking:
            self.broken.append(f"{pod.metadata.name} was deleted before its game allowed it")
        # What vanishes at once leaves no object with the revision of its end.
        when = max(number(pod.metadata.resource_version), self._pods.revision)
        self._deleted.append((pod.metadata.name, owner, when))

    def _allocation_changed(self, old: Allocation | None, new: Allocation | None, _: bool) -> None:
        if old is None and new is not None and not new.spec.retired and not new.spec.waiting:
            since = self._taken.setdefault(new.spec.server_uid, {})
            since[new.metadata.uid] = number(new.metadata.resource_version)

    def _server_changed(self, old: Server | None, new: Server | None, _: bool) -> None:
        if old is None and new is not None and names.NUMBER in new.metadata.labels:
            fleet = next((each.uid for each in new.metadata.owner_references), "")
            uids = self._numbers.setdefault((fleet, new.metadata.name), set())
            uids.add(new.metadata.uid)
            if len(uids) > 1:
                self.broken.append(f"the number of {new.metadata.name} was used twice")

    def judge(self) -> None:
        """Nobody who played was cut, nor was any number used twice."""
        for pod, owner, when in self._deleted:
            for allocation, since in self._taken.get(owner, {}).items():
                if since < when and allocation in self._held - self._permitted:
                    self.broken.append(f"{pod} was deleted while {allocation} had its server")
        assert not self.broken, self.broken


class GameWorld(GameStage):
    """A namespace with two nodes of its own."""

    def __init__(self, client: Client, operator: Client, namespace: str, nodes: Nodes) -> None:
        super().__init__(client, operator, namespace, nodes)
        self.operator_client = operator
        self.nodes = nodes

    async def ready(self, replicas: int, *, within: float = 30.0) -> list[Server]:
        """Servers of the game that somebody could have."""
        found: list[Server] = []

        async def there() -> None:
            nonlocal found
            current = (await self.the_game()).status.current_fleet_name
            found = [
                each
                for each in await self.servers("Ready")
                if each.metadata.labels.get(names.FLEET) == current and not each.metadata.deleting
            ]
            assert len(found) == replicas, [
                (each.metadata.name, each.status.state) for each in await self.servers()
            ]

        await eventually(there, within=within, every=0.05, not_yet=(KubeError,))
        return found

    async def at_rest(self, replicas: int, alone: frozenset[str] = frozenset()) -> None:
        """One fleet of so many ready servers, those that stand alone, and nothing else."""
        await self.tidy(alone)
        game = await self.the_game()
        assert game.status.observed_generation == game.metadata.generation
        fleets = await self.fleets()
        assert set(fleets) == {game.status.current_fleet_name}, (set(fleets), game.status)
        of_fleet = [each for each in await self.servers() if names.NUMBER in each.metadata.labels]
        assert len(of_fleet) == replicas, [each.metadata.name for each in of_fleet]
        left = await self._list(Allocation)
        assert not left, [(each.metadata.name, each.spec) for each in left]

    async def tidy(self, alone: frozenset[str] = frozenset()) -> None:
        """No orphan, no finalizer that is stuck, no port twice, nobody unwell."""
        servers = {each.metadata.name: each for each in await self.servers()}
        pods = await self._list(Pod)
        for server in servers.values():
            assert not server.metadata.deleting, server.metadata.name
            assert server.status.state in ("Ready", "Allocated"), (
                server.metadata.name,
                server.status.state,
                server.status.conditions,
            )
        hand_made = {name for name, each in servers.items() if not each.metadata.owner_references}
        assert hand_made == set(alone), hand_made
        assert sorted(each.metadata.labels[names.PROTECTED] for each in pods) == sorted(servers)
        on_node: Counter[tuple[str, int]] = Counter()
        for pod in pods:
            server = servers[pod.metadata.labels[names.PROTECTED]]
            assert not pod.metadata.deleting, pod.metadata.name
            assert pod.metadata.owner_references[0].uid == server.metadata.uid, pod.metadata.name
            on_node.update((pod.node_name, port) for port in host_ports_of(pod).values())
            told = [each.port for each in server.status.ports]
            assert told == list(host_ports_of(pod).values()), (server.metadata.name, told)
        assert max(on_node.values(), default=1) == 1, on_node
        for allocation in await self._list(Allocation):
            if allocation.spec.waiting is None:
                found = servers.get(allocation.metadata.name)
                assert found is not None, f"{allocation.metadata.name} has no server"
                assert found.metadata.uid == allocation.spec.server_uid
        budgets = [each.metadata.name for each in await self._list(PodDisruptionBudget)]
        assert budgets == [names.BUDGET]

    async def is_empty(self) -> None:
        """A game that was deleted took everything with it."""
        for kind in (GameType, Fleet, Server, Pod, Allocation):
            left = [each.metadata.name for each in await self._list(kind)]
            assert not left, (kind.KIND.kind, left)

    async def cut(self, node: str, *, lost: bool) -> None:
        """What the control plane says of a node that is silent, and of one that is back."""
        condition = {
            "type": "Ready",
            "status": "Unknown" if lost else "True",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
        await self.client.patch(
            Node, node, body={"status": {"conditions": [condition]}}, subresource="status"
        )

    async def _list(self, kind: type[Object]) -> list[Any]:
        return list((await self.client.list(kind, self.namespace)).items)

    async def clear(self) -> None:
        await super().clear()
        with contextlib.suppress(NotFound):
            await self.client.delete(PodDisruptionBudget, names.BUDGET, self.namespace)
        for node in self.nodes.names:
            with contextlib.suppress(NotFound):
                await self.client.delete(Node, node)


def operator_kubeconfig(api_server: ApiServer) -> Any:
    """Of a program whom the policies know as the operator, with all rights."""
    certificate, key = api_server.authority.issue(
        "operator", names.OPERATOR_USER, organization="system:masters"
    )
    content: dict[str, Any] = dict(api_server.kubeconfig_content())
    content["users"] = [
        {
            "name": "admin",
            "user": {"client-certificate": str(certificate), "client-key": str(key)},
        }
    ]
    written = api_server.directory / "operator.kubeconfig"
    written.write_text(yaml.safe_dump(content))
    return written


@contextlib.asynccontextmanager
async def game_clients(api_server: ApiServer) -> AsyncIterator[tuple[Client, Client]]:
    """A person with all rights, and the operator."""
    async with (
        Client(load_access(api_server.kubeconfig)) as person,
        Client(load_access(operator_kubeconfig(api_server))) as operator,
    ):
        yield person, operator


async def policies_work(person: Client, operator: Client, namespace: str) -> None:
    """The API server takes a policy into use a moment after it was made."""
    spec = {"containers": [{"name": "probe", "image": "none"}]}
    probe = Pod.named(names.pod_of("probe"), namespace, spec=spec)
    probe.metadata.labels = {names.PROTECTED: "probe"}
    await person.create(probe)

    async def refused() -> bool:
        path = Pod.KIND.path(namespace, probe.metadata.name)
        try:
            await person.request("DELETE", path, params={"dryRun": "All"})
        except Forbidden:
            return True
        return False

    await eventually(refused, within=30)
    await operator.delete(Pod, probe.metadata.name, namespace, grace_seconds=0)


@contextlib.asynccontextmanager
async def game_world(api_server: ApiServer) -> AsyncIterator[tuple[GameWorld, Referee]]:
    """A namespace, its nodes, and a referee who judges at the end."""
    namespace = f"arena-{secrets.token_hex(4)}"
    async with game_clients(api_server) as (person, operator):
        await install(person, GAMESERVERS.kinds)
        for each in GAMESERVERS.cluster_objects:
            await person.apply(each)
        await person.create(Namespace.named(namespace))
        await policies_work(person, operator, namespace)
        made = [f"{namespace}-{number}" for number in range(2)]
        for name in made:
            await make_node(person, name)
        nodes = Nodes(operator, namespace, made)
        async with (
            nodes.working(),
            Referee(person, namespace).watching() as referee,
        ):
            world = GameWorld(person, operator, namespace, nodes)
            try:
                yield world, referee
                referee.judge()
            finally:
                await world.clear()
