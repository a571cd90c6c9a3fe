"""Which changes of a quota concern a tree in which nobody waits for anything."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.kube.kinds.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from edgewise.tenancy.quota.settled_quotas import SettledQuotas
from tests.unit.tenancy.test_tree_plan import quota

change = msgspec.structs.replace


def used(pods: str) -> ResourceQuota:
    status = ResourceQuotaStatus(hard={"pods": "5"}, used={"pods": pods})
    return change(quota("acme"), status=status)


CHANGES = {
    "nothing": (quota("acme"), False),
    "a pod comes": (used("1"), False),
    "more is used than there is": (used("6"), True),
    "what is used is not a number": (used("many"), True),
    "what is used is not known": (
        change(quota("acme"), status=ResourceQuotaStatus(hard={"pods": "5"})),
        True,
    ),
    "the ledger": (quota("acme", '{"team-x":{"pods":"2"}}'), True),
    "what is to be enforced": (
        change(quota("acme"), spec=ResourceQuotaSpec(hard={"pods": "9"})),
        True,
    ),
    "what is enforced": (
        change(quota("acme"), status=ResourceQuotaStatus(hard={"pods": "9"}, used={"pods": "0"})),
        True,
    ),
    "another namespace": (quota("team-x"), True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of(what: str) -> None:
    quotas = SettledQuotas()
    quotas.settle("acme", [quota("acme")])
    found, matters = CHANGES[what]
    assert quotas.matters("acme", found) is matters


def test_everything_matters_in_a_tree_that_waits() -> None:
    quotas = SettledQuotas()
    quotas.settle("acme", [quota("acme")])
    quotas.unsettle("acme")
    assert quotas.matters("acme", quota("acme"))
    assert not vars(quotas)["_trees"]
