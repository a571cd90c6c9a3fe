"""What tenancy counts of many trees."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from edgewise.tenancy.metrics import TenancyMetrics
from tests.unit.tenancy.test_tree_plan import OFF, core, tenant, tree, whole


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
