"""The pool of a template by rows: what is seen of a pod, and what becomes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.exposure import Port
from edgewise.api.sessions import (
    PodTemplate,
    Reset,
    SessionTemplate,
    SessionTemplateSpec,
    SessionTemplateStatus,
)
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.indexes.pod_index import CLEANING, RETIRED, Entry
from edgewise.sessions.observed import ClaimSeen
from edgewise.sessions.pods import made_from
from edgewise.sessions.pool.plan import MOST_AT_ONCE, PoolObserved, PoolPlan, plan_pool
from edgewise.workloads.pods_seen import PodSeen

NOW = 1_800_000_000.0
PART = PodTemplate(name="main", ports=[Port(name="http", port=80)], template={"spec": {}})


def template(*, deleting: bool = False, next: int = 0, **fields: Any) -> SessionTemplate:
    part = {name: fields.pop(name) for name in ("warm_pods", "reset") if name in fields}
    values: dict[str, Any] = {"reuse": "Template", "reutilize_timeout_seconds": 20, **fields}
    values["pod_templates"] = [msgspec.structs.replace(PART, **part)]
    return SessionTemplate(
        metadata=ObjectMeta(
            name="room", namespace="n", uid="t", deletion_timestamp="now" if deleting else None
        ),
        spec=SessionTemplateSpec(**values),
        status=SessionTemplateStatus(next=next),
    )


REVISION = made_from(PART, template().spec).name


def entry(holder: str | None = None, born_for: str = "", **fields: Any) -> Entry:
    """A pod; with a holder (or "" for nobody) it has a Lease."""
    lease_fields = {name: fields.pop(name) for name in ("until", "restarts_then") if name in fields}
    values: dict[str, Any] = {
        "name": "p",
        "uid": "u",
        "revision": REVISION,
        "ordinal": 0,
        "ready": True,
        "pooled": True,
        **fields,
    }
    lease = None
    if holder is not None:
        lease = ClaimSeen(
            pod="p",
            pod_uid="u",
            uid="l",
            version="1",
            holder=holder,
            holder_key="s",
            until=lease_fields.get("until"),
            restarts=lease_fields.get("restarts_then", 0),
        )
    return Entry(PodSeen(**values), lease, born_for, "s" if born_for else "", "t")


def orphan_lease(holder: str = "") -> Entry:
    return msgspec.structs.replace(entry(holder), pod=None)


def what_becomes(plan: PoolPlan) -> str:
    found = [
        word
        for word, orders in {
            "retired": plan.retire,
            "removed": plan.remove,
            "restored": plan.restore,
            "cleaned": plan.clean,
            "reset": plan.reset,
            "lease dropped": plan.drop,
            "session asked for": plan.confirm_sessions,
            "pod asked for": plan.confirm_pods,
            "made": plan.create,
        }.items()
        if orders
    ]
    return ", ".join(found) or "left alone"


RESET = Reset(http_path="/reset")
RESTART = Reset(restart_container="main")
GONE: dict[str, Any] = {"gone_sessions": frozenset(["dead"])}

ROWS: dict[str, tuple[Entry, SessionTemplate, dict[str, Any], str]] = {
    "a warm pod that is wanted": (entry(), template(warm_pods=1), {}, "left alone"),
    "a warm pod too many": (entry(), template(), {}, "retired"),
    "a warm pod of an edited template": (
        entry(revision="main-old"),
        template(warm_pods=1),
        {},
        "retired, made",
    ),
    "a warm pod that ended": (entry(ended=True), template(warm_pods=1), {}, "retired, made"),
    "a warm pod of a template that goes": (
        entry(),
        template(warm_pods=1, deleting=True),
        {},
        "retired",
    ),
    "a pod that a living session has": (
        entry("alive"),
        template(),
        {"live_sessions": {"alive": "s"}},
        "left alone",
    ),
    "a pod of a session that is not seen": (entry("odd"), template(), {}, "session asked for"),
    "a pod that was made for a session that is not seen": (
        entry(born_for="odd"),
        template(),
        {},
        "session asked for",
    ),
    "a pod of a dead session, reusable as it is": (entry("dead"), template(), GONE, "restored"),
    "a pod made for a dead session, reusable as it is": (
        entry(born_for="dead"),
        template(),
        GONE,
        "restored",
    ),
    "a pod of a dead session, to be made clean": (
        entry("dead"),
        template(reset=RESET),
        GONE,
        "cleaned",
    ),
    "a pod of a dead session that is not ready": (
        entry("dead", ready=False),
        template(),
        GONE,
        "retired",
    ),
    "a pod of a dead session where nothing is reused": (
        entry("dead"),
        template(reuse="Session"),
        GONE,
        "retired",
    ),
    "a pod that is being made clean": (
        entry(CLEANING, until=NOW + 9),
        template(reset=RESET),
        {},
        "reset",
    ),
    "a pod that is clean": (
        entry(CLEANING, until=NOW + 9),
        template(reset=RESET),
        {"resets": {"u": True}},
        "restored",
    ),
    "a pod that could not be made clean": (
        entry(CLEANING, until=NOW + 9),
        template(reset=RESET),
        {"resets": {"u": False}},
        "retired",
    ),
    "a pod that was not clean in time": (
        entry(CLEANING, until=NOW - 1),
        template(reset=RESET),
        {},
        "retired",
    ),
    "a pod whose container has restarted": (
        entry(CLEANING, until=NOW + 9, restarts=(("main", 2),), restarts_then=1),
        template(reset=RESTART),
        {},
        "restored",
    ),
    "a pod whose container has not restarted yet": (
        entry(CLEANING, until=NOW + 9, restarts=(("main", 1),), restarts_then=1),
        template(reset=RESTART),
        {},
        "reset",
    ),
    "a pod of which another container has restarted": (
        entry(CLEANING, until=NOW + 9, restarts=(("main", 1), ("side", 3)), restarts_then=1),
        template(reset=RESTART),
        {},
        "reset",
    ),
    "a pod that waits": (entry("", until=NOW + 5), template(), {}, "left alone"),
    "a pod that has waited too long": (entry("", until=NOW - 1), template(), {}, "retired"),
    "a pod that would wait too long, because the clock was set back": (
        entry("", until=NOW + 3600),
        template(),
        {},
        "restored",
    ),
    "a pod that waits for nobody any more": (
        entry("", until=NOW + 5),
        template(reuse="Never"),
        {},
        "retired",
    ),
    "a pod that was retired": (entry(RETIRED), template(), {}, "removed"),
    "a pod that is on its way out": (entry(RETIRED, deleting=True), template(), {}, "left alone"),
    "a Lease whose pod is not seen": (orphan_lease(), template(), {}, "pod asked for"),
    "a Lease whose pod is gone": (
        orphan_lease(RETIRED),
        template(),
        {"gone_pods": frozenset(["p"])},
        "lease dropped",
    ),
    "a Lease of a living session whose pod is gone": (
        orphan_lease("alive"),
        template(),
        {"gone_pods": frozenset(["p"]), "live_sessions": {"alive": "s"}},
        "left alone",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_becomes_of(row: str) -> None:
    seen, made, others, wanted = ROWS[row]
    observed = PoolObserved(template=made, pool={"p": seen}, **others)
    assert what_becomes(plan_pool(observed, NOW)) == wanted


def test_many_warm_pods_are_not_made_at_once() -> None:
    plan = plan_pool(PoolObserved(template=template(warm_pods=50)), NOW)
    assert len(plan.create) == MOST_AT_ONCE
    assert plan.more


def test_numbers_are_never_given_twice() -> None:
    pool = {"p": entry(ordinal=8)}
    plan = plan_pool(PoolObserved(template=template(warm_pods=2, next=3), pool=pool), NOW)
    assert [order.ordinal for order in plan.create] == [9]
    assert plan.next == 10


def test_warm_pods_that_fail_are_given_a_rest() -> None:
    wanted = template(warm_pods=1)
    revision = made_from(wanted.spec.pod_templates[0], wanted.spec).name
    seen = PoolObserved(template=wanted, resting_until={revision: NOW + 4})
    plan = plan_pool(seen, NOW)
    assert not plan.create
    assert plan.deadline == NOW + 4


def test_of_too_many_those_that_are_not_ready_go_first() -> None:
    pool = {
        "a": entry(name="a", uid="a", ordinal=0, ready=False),
        "b": entry(name="b", uid="b", ordinal=1),
    }
    plan = plan_pool(PoolObserved(template=template(warm_pods=1), pool=pool), NOW)
    assert [order.pod.name for order in plan.retire] == ["a"]
    assert plan.warm == 1


REFILLS = {
    "a pool that is more than a quarter full, while people join": (3, NOW - 0.5, 0),
    "the same, after a lull": (3, NOW - 1.5, 5),
    "the same, when the clock was set back": (3, NOW + 3600, 5),
    "a pool that is a quarter full, while people join": (2, NOW - 0.5, 6),
    "an empty pool, while people join": (0, NOW - 0.5, 8),
}


@pytest.mark.parametrize(("left", "taken_at", "made"), REFILLS.values(), ids=REFILLS)
def test_joins_go_before_refills(left: int, taken_at: float, made: int) -> None:
    pool = {f"p-{number}": entry(ordinal=number) for number in range(left)}
    seen = PoolObserved(template=template(warm_pods=8, next=9), pool=pool, taken_at=taken_at)
    plan = plan_pool(seen, NOW)
    assert len(plan.create) == made
    assert (plan.deadline == taken_at + 1.0) is (made == 0)
