"""What tenancy counts."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, Histogram

from edgewise.api.tenancy import State, Tenant
from edgewise.tenancy.quota.quantities import NANO, parse
from edgewise.tenancy.tree.seen import Tree

# Of all that a quota may name, what every cluster has: tenants must not make labels without end.
_SHARED = ("cpu", "memory", "pods")
_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 120.0)


class TenancyMetrics:
    """Counts by state, how long things take, and what is shared out."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        where = registry or CollectorRegistry()
        self._namespaces = Gauge(
            "edgewise_tenancy_namespaces",
            "Namespaces of tenants, by whether they are established, disabled or neither.",
            ["state"],
            registry=where,
        )
        self._took = Histogram(
            "edgewise_tenancy_establish_seconds",
            "From the creation of a Tenant to its first status.",
            buckets=_BUCKETS,
            registry=where,
        )
        self._slices = Gauge(
            "edgewise_tenancy_slices", "Slices, by state.", ["state"], registry=where
        )
        self._drained = Histogram(
            "edgewise_tenancy_drain_seconds",
            "From the first pod that has to leave a slice to the moment when all are gone.",
            buckets=_BUCKETS,
            registry=where,
        )
        self._quota = Gauge(
            "edgewise_tenancy_quota",
            "Quota of all tenants in cores, bytes and pods: the total, and what of it namespaces "
            "below the core ones hold (granted).",
            ["resource", "share"],
            registry=where,
        )
        self._trees: dict[str, Tally[str]] = {}
        self._sum: Tally[str] = Tally()
        self._quotas: dict[str, Tally[tuple[str, str]]] = {}
        self._shared: Tally[tuple[str, str]] = Tally()
        self._slice_states: dict[str, str] = {}

    def note(self, tree: Tree) -> None:
        found: Tally[str] = Tally()
        found[State.ESTABLISHED.value] = len(tree.rested)
        for branch in tree.branches.values():
            if branch.name in tree.rested:
                continue
            state = State.ESTABLISHED if branch.enabled else State.DISABLED
            found[state.value if branch.ready else State.FAILED.value] += 1
        self._replace(tree.tenant.metadata.name, found)

    def forget(self, root: str) -> None:
        self._replace(root, Tally())
        self.shares(root)

    def shares(
        self,
        root: str,
        *,
        total: Mapping[str, str] | None = None,
        granted: Mapping[str, str] | None = None,
    ) -> None:
        """What a tree has, as its status says; nothing: it has no quota."""
        said = {"total": total or {}, "granted": granted or {}}
        found = Tally(
            {
                (name, share): parse(amounts[name])
                for share, amounts in said.items()
                for name in _SHARED
                if name in amounts
            }
        )
        before = self._quotas.pop(root, Tally())
        if found:
            self._quotas[root] = found
        self._shared.subtract(before)
        self._shared.update(found)
        for name, share in {*before, *found}:
            self._quota.labels(name, share).set(self._shared[name, share] / NANO)

    def _replace(self, root: str, found: Tally[str]) -> None:
        before = self._trees.pop(root, Tally())
        if found:
            self._trees[root] = found
        if before == found:
            return
        self._sum.subtract(before)
        self._sum.update(found)
        for state in State:
            self._namespaces.labels(state.value).set(self._sum[state.value])

    def slice_is(self, name: str, state: str) -> None:
        """An empty state: it is gone."""
        before = self._slice_states.pop(name, "")
        if state:
            self._slice_states[name] = state.partition("/")[0]
        for each in {before, state.partition("/")[0]} - {""}:
            count = sum(one == each for one in self._slice_states.values())
            self._slices.labels(each).set(count)

    def drained(self, seconds: float) -> None:
        self._drained.observe(max(0.0, seconds))

    def established(self, tenant: Tenant, now: float) -> None:
        born = tenant.metadata.creation_timestamp
        if born is not None:
            self._took.observe(max(0.0, now - datetime.fromisoformat(born).timestamp()))
