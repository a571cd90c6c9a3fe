"""What becomes of a claim, in sentences; and whether a quota covers its nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from edgewise.api.tenancy_slices import Slice, SliceClaim, SliceClaimSpec, SliceSpec, SliceStatus
from edgewise.kube.kinds.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from edgewise.tenancy.metrics import TenancyMetrics
from edgewise.tenancy.quota.quantities import amounts
from edgewise.tenancy.slices.claim_plan import ClaimPlan, ClaimSeen, plan_claim
from edgewise.tenancy.slices.coverage import Held, uncovered
from edgewise.tenancy.slices.names import slice_name

NOW = 1_000_000.0


def claim(**spec: Any) -> SliceClaim:
    made = SliceClaim.named("c", "acme", spec=SliceClaimSpec(node_count=1, **spec))
    made.metadata.uid = "u"
    return made


def found(state: str = "", *nodes: str) -> Slice:
    status = SliceStatus(state=state, nodes=[*nodes])
    return Slice.named("s", spec=SliceSpec(node_count=1), status=status)


def look(decided: ClaimPlan) -> tuple[str, str, bool, bool]:
    ready = decided.status.conditions[0] if decided.status.conditions else None
    reason = ready.reason if ready is not None else ""
    return decided.status.state, reason, decided.make, decided.withdraw is not None


CLAIMS: dict[str, tuple[ClaimSeen, tuple[str, str, bool, bool]]] = {
    "a dynamic claim whose nodes are covered gets a slice": (
        ClaimSeen(claim=claim(), free=1, matching=1),
        ("Requested", "Requested", True, False),
    ),
    "not one beyond the quota": (
        ClaimSeen(claim=claim(), free=1, matching=1, uncovered="too much"),
        ("Pending", "QuotaShort", False, False),
    ),
    "not one without nodes": (
        ClaimSeen(claim=claim(), matching=1),
        ("Pending", "NodesShort", False, False),
    ),
    "a manual claim waits for an administrator": (
        ClaimSeen(claim=claim(mode="Manual"), free=1, matching=1),
        ("Pending", "WaitsForAdministrator", False, False),
    ),
    "a slice that looks for nodes": (
        ClaimSeen(claim=claim(), slice=found("Failed/NodesShort")),
        ("Requested", "NodesShort", False, False),
    ),
    "a slice with its nodes": (
        ClaimSeen(claim=claim(mode="Manual"), slice=found("Bound", "a")),
        ("Bound", "Ready", False, False),
    ),
    "a slice whose nodes are its own": (
        ClaimSeen(claim=claim(), slice=found("Provisioned", "a")),
        ("Employed", "Ready", False, False),
    ),
    "a slice that lost a node is still the claim's": (
        ClaimSeen(claim=claim(), slice=found("Failed/NodesShort", "a")),
        ("Bound", "Ready", False, False),
    ),
    "one that the quota does not cover any more is withdrawn": (
        ClaimSeen(claim=claim(), slice=found("Bound", "a"), made=True, uncovered="too much"),
        ("Bound", "Ready", False, True),
    ),
    "not while a subnamespace names the claim": (
        ClaimSeen(
            claim=claim(), slice=found("Bound", "a"), made=True, used=True, uncovered="too much"
        ),
        ("Bound", "Ready", False, False),
    ),
    "and never one that an administrator made": (
        ClaimSeen(claim=claim(), slice=found("Bound", "a"), uncovered="too much"),
        ("Bound", "Ready", False, False),
    ),
    "a name that is taken": (
        ClaimSeen(claim=claim(), free=1, matching=1, taken="it is not for this claim"),
        ("Pending", "Taken", False, False),
    ),
}


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_claim(sentence: str) -> None:
    given, expected = CLAIMS[sentence]
    assert look(plan_claim(given, NOW)) == expected


def test_a_claim_ends_when_its_time_is_over() -> None:
    later = claim(expires_at=datetime.fromtimestamp(NOW + 5, UTC))
    given = ClaimSeen(claim=later, slice=found("Bound", "a"))
    assert plan_claim(given, NOW).wake_at == NOW + 5
    assert plan_claim(given, NOW + 5).end


# Quota ------------------------------------------------------------------------------------


def quota(used: dict[str, str] | None = None, **hard: str) -> ResourceQuota:
    nothing = dict.fromkeys(hard, "0")
    status = ResourceQuotaStatus(hard=hard, used=nothing if used is None else used)
    return ResourceQuota.named("tenancy", "acme", spec=ResourceQuotaSpec(hard=hard), status=status)


def held(**nodes: str) -> Held:
    return Held(claim="older", order=("", "older"), nodes=amounts(nodes))


NODE = amounts({"cpu": "4", "memory": "8Gi", "pods": 110})
ENOUGH = quota(cpu="8", memory="16Gi")
COVERED: dict[str, tuple[ResourceQuota | None, tuple[Held, ...], str]] = {
    "a quota that is as large as the node covers it": (quota(cpu="4", memory="8Gi"), (), ""),
    "what it does not count does not matter": (quota(cpu="4"), (), ""),
    "one that is smaller does not": (
        quota(cpu="3", memory="8Gi"),
        (),
        "spec.nodeCount: the node has cpu 4, and the quota of acme covers 3",
    ),
    "what is used does not cover a node": (
        quota({"cpu": "1500m"}, cpu="5"),
        (),
        "spec.nodeCount: the node has cpu 4, and the quota of acme covers 3500m",
    ),
    "nor what an older claim holds": (
        ENOUGH,
        (held(cpu="6"),),
        "spec.nodeCount: the node has cpu 4, and the quota of acme covers 2",
    ),
    "two claims fit beside each other": (ENOUGH, (held(cpu="4", memory="8Gi"),), ""),
    "requests and limits are covered like the plain name": (
        quota(**{"requests.cpu": "4", "limits.cpu": "3"}),
        (),
        "spec.nodeCount: the node has limits.cpu 4, and the quota of acme covers 3",
    ),
    "what is not counted yet covers nothing": (
        quota({}, cpu="8"),
        (),
        "Kubernetes has not counted yet what is used of cpu",
    ),
    "pods alone say nothing about a node": (
        quota(pods="500"),
        (),
        "spec.mode: a Dynamic claim needs a quota of cpu or memory, and this one has pods",
    ),
}


@pytest.mark.parametrize("sentence", COVERED)
def test_quota(sentence: str) -> None:
    given, older, expected = COVERED[sentence]
    assert uncovered(NODE, 1, given, older) == expected


def test_without_quota_nothing_is_covered() -> None:
    assert "this tenant has none" in uncovered(NODE, 1, None, ())


def test_a_slice_is_named_after_its_claim_and_no_other_one() -> None:
    one, later = claim(), claim()
    later.metadata.uid = "v"
    assert slice_name(one).startswith("c-")
    assert slice_name(one) != slice_name(later)
    assert len(slice_name(one)) == len("c-") + 10


def test_slices_are_counted_by_state() -> None:
    registry = CollectorRegistry()
    metrics = TenancyMetrics(registry)

    def counted(state: str) -> float | None:
        return registry.get_sample_value("edgewise_tenancy_slices", {"state": state})

    metrics.slice_is("a", "Failed/NodesShort")
    metrics.slice_is("b", "Bound")
    assert (counted("Failed"), counted("Bound")) == (1, 1)
    metrics.slice_is("a", "Bound")
    metrics.slice_is("b", "")
    assert (counted("Failed"), counted("Bound")) == (0, 1)
