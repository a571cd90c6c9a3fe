"""Amounts through random histories: people, pods, Kubernetes, and operators that are killed after
any write or act on what they saw long ago. The sums hold at every single revision."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.tenancy.names import SUBNAMESPACES
from edgewise.tenancy.quota.plan import plan_quota
from edgewise.tenancy.quota.quantities import NANO
from edgewise.tenancy.quota.tree_quota import Account, NewAccount, SetEnforced, TreeQuota
from tests.unit.tenancy.quota_world import CORE, World

NAMES = ("cpu", "pods")
amounts = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})
totals = st.fixed_dictionaries({name: st.integers(0, 30) for name in NAMES})
actions = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "ask",
                "ask",
                "ask below",
                "change",
                "end",
                "total",
                "pod",
                "pod",
                "pod",
                "pods end",
                "count",
                "reconcile",
                "reconcile",
                "killed",
                "killed",
                "look",
                "act on what was seen",
                "namespaces end",
                "settle",
            )
        ),
        st.integers(0, 7),
        amounts,
        totals,
    ),
    max_size=40,
)


@settings(max_examples=2500)
@given(totals, actions)
def test_the_sums_hold_at_every_revision_of_any_history(total, history) -> None:  # noqa: PLR0912 - one per action
    world = World(total)
    seen = None
    for action, number, amount, other_total in history:
        names = [CORE, *world.children]
        name = names[number % len(names)]
        child = world.children.get(name)
        if action == "ask":
            world.ask(CORE, amount)
        elif action == "ask below":
            world.ask(name, amount)
        elif action == "change" and child is not None:
            child.want = dict(amount)
        elif action == "end" and child is not None:
            child.asked = False
        elif action == "total":
            world.grant_total(other_total)
        elif action == "pod":
            world.create_pod(name, {"pods": 1, "cpu": amount["cpu"] % 3})
        elif action == "pods end":
            world.delete_pods(name)
        elif action == "count":
            world.count(name)
        elif action == "reconcile":
            world.reconcile()
        elif action == "killed":
            world.reconcile(writes=number)
        elif action == "look":
            # A second operator, which does not know yet that it does not lead any more. What it
            # would make, it may not: its lease is asked before each write.
            plan = plan_quota(world.quota())
            if not any(isinstance(write, NewAccount) for write in plan.writes):
                seen = plan
        elif action == "act on what was seen" and seen is not None:
            world.carry_out(seen)
        elif action == "namespaces end":
            world.end_namespaces()
        elif action == "settle":
            world.settle()
            world.check_at_rest()
    world.settle()
    world.check_at_rest()
    decided = plan_quota(world.quota())
    assert not decided.writes, "a tree at rest is written again"
    if decided.settled:
        # Whatever comes and goes, nothing follows: so nobody has to look.
        for name in world.accounts:
            world.delete_pods(name)
            world.count(name)
            world.create_pod(name, {"pods": 1, "cpu": 1})
        after = plan_quota(world.quota())
        assert after.settled
        assert not after.writes


def test_subnamespaces_are_counted_by_us_where_kubernetes_has_not() -> None:
    """In the write by which a quota begins to hold; afterwards only where too few are counted."""

    def written(used: dict[str, int] | None, asks: int) -> list[dict[str, int]]:
        account = Account(
            namespace=CORE,
            hard={SUBNAMESPACES: 4},
            ledger={},
            enforced=None if used is None else {SUBNAMESPACES: 4},
            used=used,
        )
        quota = TreeQuota(
            core=CORE,
            total={SUBNAMESPACES: 4},
            accounts={CORE: account},
            children={},
            open=frozenset({CORE}),
            asks={CORE: asks},
        )
        return [
            dict(each.used) for each in plan_quota(quota).writes if isinstance(each, SetEnforced)
        ]

    assert written(None, 2) == [{SUBNAMESPACES: 2 * NANO}]
    assert written({}, 2) == [{SUBNAMESPACES: 2 * NANO}]
    assert written({SUBNAMESPACES: NANO}, 2) == [{SUBNAMESPACES: 2 * NANO}]
    # One is being admitted, and cannot be seen yet; or one went, which Kubernetes will notice.
    assert written({SUBNAMESPACES: 3 * NANO}, 2) == []


def test_a_total_that_falls_and_rises_again_is_not_given_twice() -> None:
    world = World({"pods": 30})
    first = world.ask(CORE, {"pods": 10})
    world.settle()
    second = world.ask(CORE, {"pods": 11})
    world.reconcile()
    world.reconcile()
    world.grant_total({"pods": 7})
    world.reconcile()  # the ledger is cut; the children still hold what they held
    assert world.accounts[first].hard["pods"] == 10
    assert world.accounts[second].hard["pods"] == 11
    world.grant_total({"pods": 20})
    world.settle()  # looks at every revision: the core may not grow before the children shrink
    world.check_at_rest()
