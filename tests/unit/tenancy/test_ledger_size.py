"""A ledger has to fit into the annotations of one object, however many children are asked for."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.api.tenancy import Workspace
from edgewise.kube.kinds.core import ResourceQuota
from edgewise.tenancy.names import LEDGER
from edgewise.tenancy.quota import reading
from edgewise.tenancy.quota.plan import plan_quota
from edgewise.tenancy.quota.quantities import NANO
from edgewise.tenancy.quota.reading import hard_patch
from edgewise.tenancy.quota.tree_quota import Account, SetHard, TreeQuota, Want
from edgewise.tenancy.tree.plan import plan
from tests.unit.tenancy.test_tree_plan import (
    ALICE,
    NOW,
    TOTAL,
    change,
    child,
    core,
    made,
    quota,
    source,
    states,
    tree,
)

# What the API server allows for all annotations of an object.
MOST_BYTES = 262_144
NAMES = ("count/subnamespaces.tenancy.edgewise.dev", "cpu", "memory", "pods")


@pytest.mark.parametrize("there", [False, True])
def test_a_ledger_that_is_full_takes_no_more_children(there: bool) -> None:
    many = dict.fromkeys(NAMES, 10**6 * NANO)
    amounts = dict.fromkeys(NAMES, 1)  # nano units: the longest texts
    children = {
        f"{'n' * 50}{number:06}-{'h' * 6}": Want(
            amounts=amounts, order=(f"{number:06}", ""), there=there
        )
        for number in range(5000)
    }
    account = Account(
        namespace="core",
        hard=many,
        ledger={},
        enforced=many,
        used=dict.fromkeys(NAMES, 0),
        version="1",
    )
    seen = TreeQuota(
        core="core",
        total=many,
        accounts={"core": account},
        children={"core": children},
        open=frozenset({"core"}),
    )
    decided = plan_quota(seen)
    (write,) = [each for each in decided.writes if isinstance(each, SetHard)]
    annotations = hard_patch(write, ResourceQuota.named("tenancy", "core"))["metadata"][
        "annotations"
    ]
    assert len(annotations[LEDGER]) < MOST_BYTES
    assert len(msgspec.json.decode(annotations[LEDGER])) > 1000
    oldest, newest = min(children), max(children)
    assert oldest in write.ledger
    assert "as many children as one ResourceQuota can tell of" in decided.short[newest]
    # Sums are kept: what is not in the ledger was not taken from the parent.
    for name in NAMES:
        held = sum(entry[name] for entry in write.ledger.values())
        assert write.hard[name] + held == many[name]


def test_a_ledger_is_read_once_for_all_its_children() -> None:
    """A plan holds up the whole operator: what it costs must not grow with the square of a tree."""
    children = []
    for number in range(100):
        asked = source(f"t{number}", workspace=Workspace(owner=ALICE))
        branch = made(child(asked, name=f"t{number}-x"), "namespace", "policy", "binding", "limits")
        children.append(change(branch, quota=quota(branch.name, hard="0")))
    ledger = msgspec.json.encode({each.name: {"pods": "0"} for each in children}).decode()
    above = made(core(), "namespace", "policy", "binding", "limits")
    seen = tree(change(above, quota=quota("acme", ledger=ledger)), *children, quota=TOTAL)
    before = reading._ledger.cache_info().misses
    decided = plan(seen, NOW)
    assert len(states(decided)) > 100
    assert reading._ledger.cache_info().misses - before <= 2  # of the core, and an empty one
