"""What one more tenant costs the operator does not depend on how many there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import Tenant, TenantSpec
from edgewise.api.tenancy_requests import TenantRequest, TenantRequestSpec
from edgewise.api.tenancy_slices import ClaimRef, Slice, SliceClaim, SliceClaimSpec, SliceSpec
from edgewise.kube.kinds.core import Namespace, Secret
from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.controller import tree_of_namespaced, trees_of_namespace
from edgewise.tenancy.known_trees import KnownTrees
from edgewise.tenancy.metrics import TenancyMetrics
from edgewise.tenancy.orders import Correct, Create
from edgewise.tenancy.requests.controller import requests_of
from edgewise.tenancy.slices.controller import slices_of_claim
from edgewise.tenancy.tree.plan import plan
from tests.unit.tenancy.test_known_trees import KINDS, _patched
from tests.unit.tenancy.test_tree_plan import ALICE, AROUND, NOW

FEW, MANY = 20, 400


class Operator:
    """Caches and what looks at them, as at a tenant that comes."""

    def __init__(self) -> None:
        self.caches: dict[type[Object], Cache[Any]] = {kind: Cache(kind) for kind in KINDS}
        self._view = CacheView("test", self.caches)
        self._trees, self._metrics = KnownTrees(), TenancyMetrics()
        self._trees.follow(self._view)
        self._revision = 0
        for cache in self.caches.values():
            cache.replace([], "0")

    def establish(self, name: str) -> None:
        key = Key("", name)
        self._put(Tenant.named(name, spec=TenantSpec(owners=[ALICE])))
        while True:
            tree = self._trees.observe(self.caches[Tenant].get(key), self._view, AROUND)
            decided = plan(tree, NOW)
            if not decided.orders:
                break
            for order in decided.orders:
                match order:
                    case Create(made=made):
                        self._put(made)
                    case Correct(found=found, patch=patch):
                        self._put(_patched(found, patch))
        for say in decided.says:
            self._put(msgspec.structs.replace(say.about, status=say.status))
        self._metrics.note(tree)

    def _put(self, obj: Any) -> None:
        """The answer to a write, and then the same from the stream."""
        self._revision += 1
        kind = type(obj)
        before = self.caches[kind].get(obj.key)
        meta = msgspec.structs.replace(
            obj.metadata,
            uid=before.metadata.uid if before is not None else f"many-{self._revision}",
            resource_version=str(self._revision),
            creation_timestamp="2026-01-01T00:00:00Z",
        )
        document = msgspec.json.encode(msgspec.structs.replace(obj, metadata=meta))
        self.caches[kind].write_through(msgspec.json.decode(document, type=kind))
        self.caches[kind].apply(msgspec.json.decode(document, type=kind))
        if kind is Namespace:
            list(trees_of_namespace(obj, self._view))
        elif kind is not Tenant:
            list(tree_of_namespaced(obj, self._view))


def steps(act: Callable[[], Any]) -> int:
    """How many instructions the interpreter takes: unlike time, it is the same on any machine."""
    count = 0

    def taken(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return taken

    before = sys.gettrace()
    sys.settrace(taken)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def cached(kind: type[Object], found: Iterable[Object]) -> CacheView:
    cache: Cache[Any] = Cache(kind)
    cache.replace(found, "1")
    return CacheView("test", {kind: cache})


def test_one_more_tenant_takes_as_many_steps_among_many() -> None:
    operator, took = Operator(), {}
    for number in range(MANY + 1):
        act = partial(operator.establish, f"t-{number:05}")
        if number in (FEW, MANY):
            took[number] = steps(act)
        else:
            act()
    assert took[FEW] > 1_000
    assert took[MANY] < 1.05 * took[FEW]


def test_python_looks_for_garbage_among_no_cached_object() -> None:
    operator = Operator()
    for number in range(FEW):
        operator.establish(f"t-{number:05}")
    found = [each for cache in operator.caches.values() for each in cache]
    assert len(found) == 4 * FEW
    assert not any(gc.is_tracked(part) for each in found for part in (each, each.metadata))


def request(number: int) -> TenantRequest:
    spec = TenantRequestSpec(tenant_name=f"t-{number:05}")
    return TenantRequest.named(f"r-{number:05}", spec=spec)


def claimed(number: int) -> Slice:
    ref = ClaimRef(namespace=f"t-{number:05}", name="nodes")
    return Slice.named(f"s-{number:05}", spec=SliceSpec(node_count=1, claim_ref=ref))


def _all(route: Callable[..., Iterable[Key]], of: Object, cache: CacheView) -> list[Key]:
    return [*route(of, cache)]


TENANT = Tenant.named("t-00003", spec=TenantSpec(owners=[ALICE]))
CLAIM = SliceClaim.named("nodes", "t-00003", spec=SliceClaimSpec(node_count=1))


@pytest.mark.parametrize(
    ("kind", "made", "of", "route"),
    [
        (TenantRequest, request, TENANT, requests_of),
        (Slice, claimed, CLAIM, slices_of_claim),
    ],
)
def test_who_a_change_concerns_is_found_without_looking_at_all(
    kind: type[Object], made: Callable[[int], Object], of: Object, route: Callable[..., Any]
) -> None:
    took = {}
    for count in (FEW, MANY):
        cache = cached(kind, [made(number) for number in range(count)])
        (key,) = route(of, cache)
        assert key.name.endswith("00003")
        took[count] = steps(partial(_all, route, of, cache))
    assert took[MANY] == took[FEW]


def test_a_write_looks_only_at_the_caches_of_its_kind() -> None:
    client: Any = None
    caches = SharedCaches(client)
    namespaces = caches.of(Namespace)
    took = {}
    for number in range(MANY):
        caches.of(Secret, Selection(namespace=f"t-{number:05}"))
        took[number] = steps(lambda: caches.holding(Namespace.KIND))
    assert took[MANY - 1] == took[0]
    assert caches.holding(Namespace.KIND) == [namespaces]
    assert len(caches.holding(Secret.KIND)) == MANY
    caches.close(Secret, Selection(namespace="t-00000"))
    assert len(caches.holding(Secret.KIND)) == MANY - 1
