"""What tenancy counts of many trees."""

from __future__ import annotations

from typing import Any, cast

from prometheus_client import CollectorRegistry

from edgewise.api.tenancy import Workspace
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.tenancy.controller import TenantController
from edgewise.tenancy.metrics import TenancyMetrics
from edgewise.tenancy.tree.plan import plan
from tests.unit.tenancy.test_tree_plan import (
    ALICE,
    LEDGER_OF_TEAM,
    NOW,
    OFF,
    TOTAL,
    change,
    child,
    core,
    made,
    quota,
    source,
    tenant,
    tree,
    whole,
)


def counted(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"edgewise_tenancy_{name}", labels)


def test_what_all_tenants_have_and_what_of_it_is_granted() -> None:
    registry = CollectorRegistry()
    metrics = TenancyMetrics(registry)

    def quota(resource: str) -> tuple[float | None, ...]:
        shares = ("total", "granted")
        return tuple(counted(registry, "quota", resource=resource, share=each) for each in shares)

    metrics.shares("acme", total={"cpu": "4", "count/configmaps": "9"}, granted={"cpu": "500m"})
    metrics.shares("zoo", total={"cpu": "2", "memory": "1Ki"}, granted={"cpu": "0"})
    assert quota("cpu") == (6, 0.5)
    assert quota("memory") == (1024, None)
    # Whatever people count, the number of labels stays.
    assert quota("count/configmaps") == (None, None)
    metrics.shares("acme", total={"cpu": "3"}, granted={"cpu": "1"})
    assert quota("cpu") == (5, 1)
    metrics.forget("zoo")
    assert quota("cpu") == (3, 1)
    metrics.shares("acme")
    assert quota("cpu") == (0, 0)


def test_what_a_plan_says_of_a_quota_is_counted() -> None:
    registry = CollectorRegistry()
    nobody = cast(Any, None)
    controller = TenantController(nobody, SharedCaches(nobody), metrics=TenancyMetrics(registry))
    root = change(whole(made(core(), "limits")), quota=quota("acme", LEDGER_OF_TEAM, "3"))
    team = change(
        whole(
            made(child(source(workspace=Workspace(owner=ALICE), resources={"pods": 2})), "limits")
        ),
        quota=quota("team-x", hard="2"),
    )
    for found, shares in ((TOTAL, (5, 2)), (None, (0, 0))):
        seen = tree(root, team, quota=found)
        decided = plan(seen, NOW)
        assert found is None or not decided.orders
        controller._count(seen, decided)
        said = [
            counted(registry, "quota", resource="pods", share=share)
            for share in ("total", "granted")
        ]
        assert tuple(said) == shares


def test_namespaces_are_counted_by_state() -> None:
    registry = CollectorRegistry()
    metrics = TenancyMetrics(registry)
    metrics.note(tree(whole(core())))
    metrics.note(tree(whole(core(tenant("zoo")))))
    metrics.note(tree(core(tenant("late"))))
    assert counted(registry, "namespaces", state="Established") == 2
    assert counted(registry, "namespaces", state="Failed") == 1
    metrics.note(tree(whole(OFF)))
    metrics.forget("late")
    assert counted(registry, "namespaces", state="Established") == 1
    assert counted(registry, "namespaces", state="Disabled") == 1
    assert counted(registry, "namespaces", state="Failed") == 0
