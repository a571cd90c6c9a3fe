"""The tenant controller: one tree is one key, so nothing in it moves twice at once.

Looks, plans, writes, and looks again, until the plan wants nothing more; then says how things
stand, in one write for each object.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

import msgspec

from edgewise.api.tenancy import (
    MANAGED,
    PARENT,
    TENANT_UID,
    SubNamespace,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaStatus,
)
from edgewise.api.tenancy_slices import SliceClaim
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.authorization import SelfSubjectReview
from edgewise.kube.kinds.core import (
    LimitRange,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Service,
)
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import ClusterRole, RoleBinding
from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, Watch, mapped, nobody
from edgewise.tenancy import parameters
from edgewise.tenancy.apply import AT_ONCE, Outcome, Writer, at_once
from edgewise.tenancy.following import Follower
from edgewise.tenancy.known_trees import KnownTrees
from edgewise.tenancy.metrics import TenancyMetrics
from edgewise.tenancy.observe import (
    below,
    by_parent,
    by_parent_namespace,
    by_tenant,
    root_of,
    unnamed,
)
from edgewise.tenancy.orders import Say, Sweep, Tell
from edgewise.tenancy.parameters import Parameters, parameters_in
from edgewise.tenancy.quota.settled_quotas import SettledQuotas
from edgewise.tenancy.surroundings import Door, Surroundings, subject_of
from edgewise.tenancy.tree.plan import Plan, plan
from edgewise.tenancy.tree.seen import Tree

# More than any chain of writes needs: a plan that never rests is a mistake, not a reason to spin.
MOST_ROUNDS = 64
# While something ends whose amounts are waited for, nothing may tell us that its pods are gone.
LOOK_FOR_PODS = 2.0
# What is inherited could not be looked at: its watch goes on trying, and tells nobody when it can.
LOOK_AT_ORIGINALS = 5.0
# What the API server did not take of a quota is asked for again: why may have been elsewhere.
ASK_AGAIN = 60.0
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"
_DNS = "kube-dns"
_SERVED = "kubernetes.io/service-name"


def _behind(slices: Iterable[EndpointSlice]) -> set[Door]:
    return {
        Door(address, port.port or 443, port.protocol)
        for each in slices
        for port in each.ports or ()
        for endpoint in each.endpoints or ()
        for address in endpoint.addresses
    }


def tree_of_namespaced(obj: Object, cache: CacheView) -> Iterable[Key]:
    return (Key("", root_of(obj.metadata.namespace, cache)),)


def trees_of_namespace(obj: Namespace, cache: CacheView) -> Iterable[Key]:
    name, above = obj.metadata.name, obj.metadata.labels.get(PARENT)
    yield Key("", root_of(above or name, cache))
    if cache[Namespace].find(name) is None:
        # What lay below it has no other way up any more.
        yield Key("", name)


def tree_of_quota(obj: TenantResourceQuota, _: CacheView) -> Iterable[Key]:
    return (Key("", obj.metadata.name),)


def tree_of_unread_tenant(obj: Object, cache: CacheView) -> Iterable[Key]:
    """Without its Tenant a subtree would look like one that lost it; the labels of its namespace
    still say where it hangs."""
    return (Key("", root_of(obj.metadata.name, cache)),)


def all_trees(_: Object, cache: CacheView) -> Iterable[Key]:
    return [each.key for each in cache[Tenant] if each.spec.parent is None]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server said of a tree's quota; over with the next change of that, or in time."""

    generation: int
    why: str
    until: float


class TenantController(Controller[Tenant]):
    # Each mostly waits for the API server.
    workers = 32
    wakes_on_status = False
    watches: tuple[Watch, ...] = (
        mapped(Tenant, nobody, unread=tree_of_unread_tenant),
        mapped(SubNamespace, tree_of_namespaced),
        mapped(SliceClaim, tree_of_namespaced),
        mapped(Namespace, trees_of_namespace, labels=TENANT_UID),
        mapped(TenantResourceQuota, tree_of_quota),
        mapped(RoleBinding, tree_of_namespaced, labels=f"{MANAGED}=true"),
        mapped(NetworkPolicy, tree_of_namespaced, labels=f"{MANAGED}=true"),
        mapped(LimitRange, tree_of_namespaced, labels=f"{MANAGED}=true"),
        mapped(
            ClusterRole,
            all_trees,
            fields=f"metadata.name={parameters.NAME}",
        ),
        mapped(
            EndpointSlice,
            all_trees,
            namespace="default",
            labels=f"{_SERVED}=kubernetes",
        ),
    )

    def __init__(
        self, client: Client, caches: SharedCaches, *, metrics: TenancyMetrics | None = None
    ) -> None:
        self._client = client
        self._follower = Follower(caches)
        self._trees = KnownTrees()
        self._quotas = SettledQuotas()
        self.watches = (
            *self.watches,
            mapped(ResourceQuota, self._tree_of_resource_quota, labels=f"{MANAGED}=true"),
        )
        self.metrics = metrics or TenancyMetrics()
        self._around: Surroundings | None = None
        self._foreign: dict[str, set[str]] = {}
        self._refused: dict[str, Refusal] = {}
        self._stuck: dict[str, int] = {}  # how often in a row something of a tree was refused
        self._fixed_doors: frozenset[Door] = frozenset()
        self._told_by: ClusterRole | None = None
        self._told = parameters_in({})

    def start(self, cache: CacheView) -> None:
        self._trees.follow(cache)

    async def reconcile_key(self, key: Key) -> Requeue | None:
        tenant = self.cache[Tenant].get(key)
        if tenant is None:
            await self._sweep(key.name)
            return None
        if tenant.spec.parent is not None:
            root = root_of(tenant.spec.parent.namespace, self.cache)
            if root != key.name:
                self.wake(Key("", root))
            return None
        return await self.reconcile(tenant)

    async def reconcile(self, tenant: Tenant) -> Requeue | None:
        name, writer = tenant.metadata.name, Writer(self.api)
        self._quotas.unsettle(name)
        await self._look_for_foreign(name)
        around = await self._surroundings()
        stuck: dict[str, str] = {}
        undone: frozenset[tuple[str, str]] = frozenset()
        for _ in range(MOST_ROUNDS):
            seen = await self._observe(tenant, around)
            tree = msgspec.structs.replace(seen, stuck=stuck, undone=undone)
            decided = plan(tree, self.clock())
            if not decided.orders:
                self._trees.rest(name, decided.rested)
                break
            outcome = await writer.carry_out(decided.orders)
            stuck |= outcome.stuck
            undone |= outcome.undone
            self._learn(tree, outcome)
        else:
            raise TryAgainNow(f"the tree of {name} takes more than {MOST_ROUNDS} rounds")
        wake = partial(self.wake, tenant.key)
        followed = await self._follower.follow(tree, self.api, wake)
        if followed.uncopied:
            tree = msgspec.structs.replace(tree, uncopied=followed.uncopied)
            decided = plan(tree, self.clock())
        await self._say(tree, decided)
        if decided.quota_settled:
            found = [branch.quota for branch in tree.branches.values()]
            self._quotas.settle(name, [each for each in found if each is not None])
        delays = [self._rest(name)] if stuck else []
        if not stuck:
            self._stuck.pop(name, None)
        if any(child not in tree.gone for child in unnamed(tree)):
            delays.append(LOOK_FOR_PODS)
        if not followed.complete:
            delays.append(LOOK_AT_ORIGINALS)
        if tree.refused:
            delays.append(max(0.0, self._refused[name].until - self.clock()))
        return Requeue(delay=min(delays, default=None), moment=decided.wake_at)

    def _rest(self, root: str) -> float:
        """How long until what was refused is tried again, if nothing changes before."""
        times = self._stuck[root] = self._stuck.get(root, 0) + 1
        return self.backoff.delay(times)

    # Looking ------------------------------------------------------------------------

    def _tree_of_resource_quota(self, obj: ResourceQuota, cache: CacheView) -> Iterable[Key]:
        root = root_of(obj.metadata.namespace, cache)
        gone = cache[ResourceQuota].get(obj.key) is None
        return (Key("", root),) if gone or self._quotas.matters(root, obj) else ()

    async def _observe(self, tenant: Tenant, around: Surroundings) -> Tree:
        name = tenant.metadata.name
        latest = self.cache[Tenant].get(tenant.key) or tenant
        quota = self.cache[TenantResourceQuota].find(name)
        tree = self._trees.observe(
            latest,
            self.cache,
            around,
            foreign=self._foreign.get(name, ()),
            refused=self._refusal(name, quota),
        )
        gone = {child for child in unnamed(tree) if await self._nothing_left(child)}
        return msgspec.structs.replace(tree, gone=frozenset(gone)) if gone else tree

    def _refusal(self, name: str, quota: TenantResourceQuota | None) -> str:
        """Why the API server did not take this quota a moment ago."""
        found = self._refused.get(name)
        if found is None or quota is None or found.generation != quota.metadata.generation:
            return ""
        return found.why if self.clock() < found.until else ""

    async def _nothing_left(self, child: str) -> bool:
        """Whether nothing of a child, or below it, can use what it held.

        A namespace that ends lets nothing in; what counts is what is still there. It need not be
        gone: a finalizer on anything else would keep its parent's amounts for ever.
        """
        for namespace in below(child, self.cache):
            if not namespace.metadata.deleting or await self._has_pods(namespace.metadata.name):
                return False
        try:
            found = await self.api.get(Namespace, child)
        except NotFound:
            return True
        return found.metadata.deleting and not await self._has_pods(child)

    async def _has_pods(self, namespace: str) -> bool:
        return await self._has(Pod, namespace, _RUNNING) or await self._has(
            PersistentVolumeClaim, namespace
        )

    async def _has(self, kind: type[Object], namespace: str, fields: str = "") -> bool:
        """One is enough to know: there may be thousands, and this is asked every two seconds."""
        whole = self.api.pages(kind, namespace, fields=fields, limit=1)
        async with contextlib.aclosing(whole) as pages:
            async for page in pages:
                if page:
                    return True
        return False

    async def _look_for_foreign(self, root: str) -> None:
        for name in list(self._foreign.get(root, ())):
            try:
                await self.api.get(Namespace, name)
            except NotFound:
                self._foreign[root].discard(name)
        if not self._foreign.get(root):
            self._foreign.pop(root, None)

    async def _surroundings(self) -> Surroundings:
        if self._around is None:
            system = await self.api.get(Namespace, "kube-system")
            me = await self._client.create(SelfSubjectReview.named(""))
            slices = await self.api.list(EndpointSlice, "kube-system", labels=f"{_SERVED}={_DNS}")
            self._fixed_doors = frozenset(
                _behind(slices.items)
                | await self._doors_of("default", "kubernetes")
                | await self._doors_of("kube-system", _DNS)
            )
            self._around = Surroundings(
                cluster_uid=system.metadata.uid,
                operator=subject_of(me.status.user_info.username),
            )
        return msgspec.structs.replace(
            self._around, parameters=self._parameters(), doors=self._doors()
        )

    def _parameters(self) -> Parameters:
        found = self.cache[ClusterRole].find(parameters.NAME)
        if found is not self._told_by:
            self._told_by = found
            self._told = parameters_in(found.metadata.annotations if found is not None else {})
        return self._told

    async def _doors_of(self, namespace: str, name: str) -> set[Door]:
        """Of a Service, which keeps its address."""
        doors: set[Door] = set()
        try:
            service = await self.api.get(Service, name, namespace)
        except NotFound:
            return doors
        address = service.spec.cluster_ip
        if address and address != "None":
            doors |= {Door(address, port.port, port.protocol) for port in service.spec.ports}
        return doors

    def _doors(self) -> tuple[Door, ...]:
        """The API server and the cluster's DNS, at the addresses of their Services and at those
        behind: which of the two a packet shows depends on who enforces."""
        servers = _behind(self.cache[EndpointSlice])
        return tuple(sorted({*servers, *self._fixed_doors}, key=str))

    # What a round found out -----------------------------------------------------------

    def _learn(self, tree: Tree, outcome: Outcome) -> None:
        name = tree.tenant.metadata.name
        if outcome.foreign:
            self._foreign.setdefault(name, set()).update(outcome.foreign)
        if outcome.refused and tree.quota is not None:
            self._refused[name] = Refusal(
                generation=tree.quota.metadata.generation,
                why=outcome.refused,
                until=self.clock() + ASK_AGAIN,
            )
        self._report(tree.tenant, outcome.troubles)

    def _report(self, tenant: Tenant, troubles: Iterable[str]) -> None:
        for trouble in troubles:
            self.events.warning(tenant, "NotDone", trouble)

    async def _say(self, tree: Tree, decided: Plan) -> None:
        # The deepest first: who made the newest namespace waits for what is said there.
        changes = [each for each in reversed(decided.says) if each.about.status != each.status]
        await at_once(AT_ONCE, (self._write(each) for each in changes))
        for tell in decided.tells:
            self._tell(tell)
        self.metrics.note(tree)
        self._count(tree, decided)

    def _count(self, tree: Tree, decided: Plan) -> None:
        root = tree.tenant.metadata.name
        said = [each for each in decided.says if each.about is tree.quota]
        status = said[0].status if said else None
        if isinstance(status, TenantResourceQuotaStatus):
            self.metrics.shares(root, total=status.total, granted=status.granted)
        else:
            self.metrics.shares(root)

    async def _write(self, say: Say) -> None:
        established = isinstance(say.about, Tenant) and not say.about.status.state
        await self.api.write_status(say.about, say.status)
        if established and isinstance(say.about, Tenant):
            self.metrics.established(say.about, self.clock())

    def _tell(self, tell: Tell) -> None:
        note = self.events.warning if tell.warning else self.events.normal
        note(tell.about, tell.reason, tell.message)

    # What is left of trees --------------------------------------------------------------

    async def _sweep(self, name: str) -> None:
        """There is no Tenant of this name: what hangs on it, or on a namespace of this name that
        is gone, goes too."""
        self._foreign.pop(name, None)
        self._refused.pop(name, None)
        self._stuck.pop(name, None)
        self._follower.forget(name)
        self._trees.forget(name)
        self._quotas.unsettle(name)
        self.metrics.forget(name)
        namespaces = self.cache[Namespace]
        left: list[Namespace | Tenant] = [
            each for each in namespaces.by(by_tenant, name) if PARENT not in each.metadata.labels
        ]
        if namespaces.find(name) is None:
            left += namespaces.by(by_parent, name)
            left += self.cache[Tenant].by(by_parent_namespace, name)
        await Writer(self.api).carry_out(
            [Sweep(each) for each in left if not each.metadata.deleting]
        )
