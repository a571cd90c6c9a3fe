"""Small promises of tenancy: labels, the operator's own rights, what is swept, and what counts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from edgewise.api.tenancy import (
    CLUSTER_UID,
    KIND_LABEL,
    OWNER_UID,
    PARENT,
    RUNTIME_CLASS,
    SLICE,
    TENANT,
    TENANT_UID,
    ParentRef,
    Subtenant,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
    Workspace,
)
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, PersistentVolumeClaim, Pod, PodStatus
from edgewise.kube.kinds.rbac import RBAC, PolicyRule
from edgewise.kube.objects import Key, Object, ObjectMeta
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.apply import Outcome, Writer
from edgewise.tenancy.controller import ASK_AGAIN, TenantController
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.orders import Correct, Create, Sweep
from edgewise.tenancy.policies.runtime_class import SET_RUNTIME_CLASS
from edgewise.tenancy.surroundings import Surroundings
from edgewise.tenancy.tree.manifests import POD_SECURITY, labels_of
from edgewise.tenancy.tree.plan import plan
from tests.unit.tenancy.test_tree_plan import (
    ALICE,
    AROUND,
    NOW,
    change,
    child,
    core,
    source,
    tenant,
    tree,
    whole,
)

# Labels -----------------------------------------------------------------------------------


def first_namespace(*branches: Any) -> Namespace:
    (order,) = plan(tree(*branches), NOW).orders
    assert isinstance(order, Create)
    assert isinstance(order.made, Namespace)
    return order.made


def test_a_core_namespace_has_all_its_labels_in_the_one_create() -> None:
    assert first_namespace(core()).metadata.labels == {
        KIND_LABEL: "core",
        TENANT: "acme",
        TENANT_UID: "uid-acme",
        CLUSTER_UID: "cluster",
        POD_SECURITY: "baseline",
    }


def test_a_child_says_whose_it_is_and_its_authors_labels_have_a_prefix() -> None:
    asked = source(labels={"tier": "gold", "tenant-uid": "forged"})
    assert first_namespace(whole(core()), child(asked)).metadata.labels == {
        KIND_LABEL: "sub",
        TENANT: "acme",
        TENANT_UID: "uid-acme",
        CLUSTER_UID: "cluster",
        POD_SECURITY: "baseline",
        PARENT: "acme",
        OWNER_UID: "uid-team",
        "team.tenant.edgewise.dev/tier": "gold",
        "team.tenant.edgewise.dev/tenant-uid": "forged",
    }


def test_a_subtenant_has_a_tenant_uid_of_its_own() -> None:
    asked = source("shop", subtenant=Subtenant(owner=ALICE))
    shop = child(asked, "shop-x", tenant=tenant("shop-x"))
    labels = first_namespace(whole(core()), shop).metadata.labels
    assert (labels[TENANT], labels[TENANT_UID]) == ("shop-x", "uid-shop-x")
    assert (labels[PARENT], labels[OWNER_UID]) == ("acme", "uid-shop")


def test_a_namespace_gets_the_runtime_class_of_the_cluster_unless_it_is_in_a_slice() -> None:
    """By this label the API server knows without looking at a pod that there is nothing to set."""
    kata = change(AROUND, parameters=change(AROUND.parameters, runtime_class="kata"))

    def labels(around: Surroundings, **fields: Any) -> dict[str, str]:
        branch = core(**fields)
        return labels_of(branch, tenant(), around)

    assert RUNTIME_CLASS not in labels(AROUND)
    assert labels(kata)[RUNTIME_CLASS] == "cluster"
    assert RUNTIME_CLASS not in labels(kata, slice="mine")
    policy: Any = SET_RUNTIME_CLASS[0]
    chosen = policy.spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert {"key": RUNTIME_CLASS, "operator": "Exists"} in chosen
    assert {"key": SLICE, "operator": "DoesNotExist"} in chosen


def test_a_class_that_is_set_or_taken_away_changes_the_label() -> None:
    kata = change(AROUND, parameters=change(AROUND.parameters, runtime_class="kata"))
    plain = whole(core())
    (order,) = plan(change(tree(plain), around=kata), NOW).orders
    assert isinstance(order, Correct)
    assert order.patch["metadata"]["labels"][RUNTIME_CLASS] == "cluster"
    assert plain.namespace is not None
    plain.namespace.metadata.labels[RUNTIME_CLASS] = "cluster"
    (order,) = plan(tree(plain), NOW).orders
    assert isinstance(order, Correct)
    assert order.patch["metadata"]["labels"][RUNTIME_CLASS] is None


# The operator's own rights ----------------------------------------------------------------


def operators() -> list[PolicyRule]:
    return [rule for each in TENANCY.rights if each.program == "operator" for rule in each.cluster]


def test_the_operator_may_not_give_more_than_it_has_and_acts_as_nobody_else() -> None:
    verbs = {verb for rule in operators() for verb in rule.verbs}
    assert not verbs & {"*", "escalate", "impersonate"}
    assert "*" not in {each for rule in operators() for each in rule.resources}
    binds = [rule for rule in operators() if "bind" in rule.verbs]
    assert binds
    for rule in binds:
        assert rule.resources == ["clusterroles"]
        assert rule.resource_names
        assert all(name.startswith("edgewise:tenant-") for name in rule.resource_names)


def test_the_operator_writes_roles_and_secrets_only_where_it_is_an_owner() -> None:
    everywhere = {
        (group, each)
        for rule in operators()
        for group in rule.api_groups
        for each in rule.resources
    }
    assert not everywhere & {("", "secrets"), ("", "configmaps"), (RBAC, "roles")}


# Sweeping ---------------------------------------------------------------------------------


class Live:
    """What is there now, whatever the caches say."""

    def __init__(self, *there: Object) -> None:
        self._there = there
        self.deleted: list[tuple[str, str]] = []
        self.pages_read = self.lists = 0

    async def get(self, kind: type[Object], name: str, namespace: str = "") -> Object:
        for each in self._there:
            if isinstance(each, kind) and each.key == Key(namespace, name):
                return each
        raise NotFound(404, "NotFound", name)

    async def list(self, kind: type[Object], namespace: str) -> Any:
        self.lists += 1
        found = [each for each in self._there if isinstance(each, kind)]
        return SimpleNamespace(items=[e for e in found if e.metadata.namespace == namespace])

    async def pages(
        self, kind: type[Object], namespace: str, *, fields: str = "", limit: int
    ) -> AsyncGenerator[list[Object], None]:
        """Of thousands that may be there, no more than so many at a time."""
        found: list[Any] = (await self.list(kind, namespace)).items
        if fields:
            assert fields == "status.phase!=Succeeded,status.phase!=Failed"
            found = [each for each in found if each.status.phase not in ("Succeeded", "Failed")]
        for begin in range(0, max(1, len(found)), limit):
            self.pages_read += 1
            yield found[begin : begin + limit]

    async def delete(self, found: Object, *, propagation: str) -> None:
        self.deleted.append((str(found.key), propagation))


CORE = whole(core()).namespace
CHILD = whole(child()).namespace
SUBTENANT = tenant("shop-x", parent=ParentRef(namespace="acme", name="shop", uid="uid-shop"))
SHOP = source("shop", subtenant=Subtenant(owner=ALICE))


def born_again(found: Any) -> Any:
    """One of the same name that was made later."""
    return change(found, metadata=change(found.metadata, uid="another"))


SWEPT: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "a core namespace whose tenant is gone": (CORE, (), True),
    "not one whose tenant is there after all": (CORE, (tenant(),), False),
    "one whose tenant is a later one of the same name": (CORE, (born_again(tenant()),), True),
    "a child whose SubNamespace is gone": (CHILD, (tenant(),), True),
    "no child whose SubNamespace is there after all": (CHILD, (source(),), False),
    "one whose SubNamespace is a later one": (CHILD, (born_again(source()),), True),
    "a subtenant whose SubNamespace is gone": (SUBTENANT, (), True),
    "no subtenant whose SubNamespace is there after all": (SUBTENANT, (SHOP,), False),
    "a subtenant whose SubNamespace is a later one": (SUBTENANT, (born_again(SHOP),), True),
}


@pytest.mark.parametrize("sentence", SWEPT)
async def test_orphans_are_swept_after_a_live_read_in_the_background(sentence: str) -> None:
    found, there, goes = SWEPT[sentence]
    api: Any = Live(*there)
    await Writer(api).carry_out([Sweep(found)])
    assert api.deleted == ([(str(found.key), "Background")] if goes else [])


async def test_orphans_of_one_parent_cost_one_live_read() -> None:
    """A thousand of them would read a thousand SubNamespaces a thousand times."""
    orphans = [whole(child(source(f"x{number}"), f"team-x{number}")).namespace for number in (1, 2)]
    api: Any = Live(source())
    writer = Writer(api)
    await writer.carry_out([Sweep(orphan) for orphan in (*orphans, CHILD) if orphan is not None])
    assert sorted(key for key, _ in api.deleted) == ["team-x1", "team-x2"]
    assert api.lists == 1
    await writer.carry_out([Sweep(orphans[0])] if orphans[0] is not None else [])
    assert api.lists == 2  # another round looks again


# What a child holds until it is gone ------------------------------------------------------


def ending(name: str) -> Namespace:
    made = Namespace.named(name)
    made.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    return made


def pod(phase: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="team-x"), status=PodStatus(phase=phase))


VOLUME = PersistentVolumeClaim.named("data", "team-x")
LEFT: dict[str, tuple[tuple[Object, ...], bool]] = {
    "nothing, when it is gone": ((), True),
    "nothing, when it ends and is empty": ((ending("team-x"),), True),
    "nothing, when its pods have ended": ((ending("team-x"), pod("Succeeded")), True),
    "all, while a pod runs": ((ending("team-x"), pod("Running")), False),
    "all, while a volume is there": ((ending("team-x"), VOLUME), False),
    "all, while it does not end": ((Namespace.named("team-x"),), False),
}


@pytest.mark.parametrize("sentence", LEFT)
async def test_a_child_that_ends_keeps_of_its_grant(sentence: str) -> None:
    there, released = LEFT[sentence]
    controller = TenantController(_no_client(), SharedCaches(_no_client()))
    spaces: Cache[Any] = Cache(Namespace)
    spaces.replace([each for each in there if isinstance(each, Namespace)], "1")
    controller.cache = CacheView("test", {Namespace: spaces})
    api: Any = Live(*there)
    controller.api = api
    assert await controller._nothing_left("team-x") is released


async def test_of_what_a_child_still_has_one_is_looked_at() -> None:
    there = [ending("team-x"), *(pod("Running") for _ in range(1000))]
    controller = TenantController(_no_client(), SharedCaches(_no_client()))
    spaces: Cache[Any] = Cache(Namespace)
    controller.cache = CacheView("test", {Namespace: spaces})
    api: Any = Live(*there)
    controller.api = api
    assert not await controller._nothing_left("team-x")
    assert api.pages_read == 1


def _no_client() -> Any:
    return None


def test_a_quota_that_was_refused_is_tried_again_in_time() -> None:
    controller = TenantController(_no_client(), SharedCaches(_no_client()))
    now = 1000.0
    controller.clock = lambda: now
    quota = TenantResourceQuota.named("acme", spec=TenantResourceQuotaSpec(claims={}))
    quota.metadata.generation = 3
    acme = Tenant.named("acme", spec=TenantSpec(owners=[ALICE]))
    seen: Any = SimpleNamespace(tenant=acme, quota=quota)
    assert controller._refusal("acme", quota) == ""
    controller._learn(seen, Outcome(refused="somebody's webhook says no"))
    assert controller._refusal("acme", quota) == "somebody's webhook says no"
    now += ASK_AGAIN + 1
    assert controller._refusal("acme", quota) == ""
    now -= ASK_AGAIN
    quota.metadata.generation = 4
    assert controller._refusal("acme", quota) == ""


# Copies -----------------------------------------------------------------------------------


def test_copies_of_a_disabled_tenant_stay_as_they_are() -> None:
    space = Workspace(inherit=["ConfigMap"], sync="Continuous", owner=ALICE)
    heir = whole(child(source(workspace=space)))
    assert heir.follows
    assert not change(heir, enabled=False).follows
