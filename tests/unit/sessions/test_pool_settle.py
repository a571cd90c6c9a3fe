"""What is said of a pool when its plan was carried out, and what is remembered of it, by rows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.exposure import Port
from edgewise.kube.conditions import Condition
from edgewise.sessions.indexes.pod_index import Entry
from edgewise.sessions.pool.observe import PoolHistory
from edgewise.sessions.pool.plan import PoolObserved, plan_pool
from edgewise.sessions.pool.settle import ASK_AGAIN, PoolOutcome, PoolSettled, settle_pool
from tests.unit.sessions.test_pool_plan import NOW, REVISION, entry, template

FAILING: dict[str, Any] = {"ready": False, "trouble": "main: no such image", "reason": "NoImage"}
REFUSED = PoolOutcome(refused_pods={REVISION: "exceeded quota"})


def said(settled: PoolSettled, kind: str) -> str:
    found = {each.type: each for each in settled.status.conditions}
    return f"{found[kind].status} {found[kind].reason}: {found[kind].message}".rstrip(": ")


ROWS: dict[str, tuple[dict[str, Any], PoolOutcome, dict[str, Any]]] = {
    "a pool that is full": (
        {"pool": {"p": entry()}},
        PoolOutcome(),
        {"WarmPodsReady": "True AllReady", "Degraded": "False AsExpected", "warning": None},
    ),
    "a pool that is being filled": (
        {},
        PoolOutcome(),
        {"WarmPodsReady": "False Starting: 1 warm pods are not ready", "warning": None},
    ),
    "pods that the API server will not have": (
        {},
        REFUSED,
        {
            "WarmPodsReady": "False PodsRefused: 1 warm pods are not ready: "
            "warm pods are refused: exceeded quota",
            "Degraded": "True PodsRefused: warm pods are refused: exceeded quota",
            "warning": ("PodsRefused", "warm pods are refused: exceeded quota"),
            "deadline": NOW + ASK_AGAIN,
        },
    ),
    "pods that do not start": (
        {"pool": {"p": entry(**FAILING)}},
        PoolOutcome(),
        {
            "WarmPodsReady": "False NoImage: 1 warm pods are not ready: "
            "warm pods: main: no such image",
            "Degraded": "True PodsNotStarting: warm pods: main: no such image",
        },
    ),
    "an object that the API server will not have": (
        {"pool": {"p": entry()}},
        PoolOutcome(refused_children={"chat": "ConfigMap chat: no"}),
        {"Degraded": "True ResourceRefused: ConfigMap chat: no", "WarmPodsReady": "True AllReady"},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_said_of(row: str) -> None:
    seen, outcome, wanted = ROWS[row]
    plan = plan_pool(PoolObserved(template=template(warm_pods=1), **seen), NOW)
    settled = settle_pool(plan, outcome)
    for name, words in wanted.items():
        found = said(settled, name) if name[0].isupper() else getattr(settled, name)
        assert found == words, name
    assert settle_pool(plan, outcome) == settled, "it is settled as often as one likes"


def test_while_pods_rest_it_stays_said_why() -> None:
    made = template(warm_pods=1)
    plan = plan_pool(PoolObserved(template=made), NOW)
    made.status = settle_pool(plan, REFUSED).status
    again = settle_pool(
        plan_pool(PoolObserved(template=made, resting_until={REVISION: NOW + 9}), NOW),
        PoolOutcome(),
    )
    assert said(again, "Degraded") == "True PodsRefused: warm pods are refused: exceeded quota"
    assert again.warning is None, "it was told before"


def test_a_template_that_is_deleted_says_who_is_left() -> None:
    seen = PoolObserved(template=template(deleting=True), live_sessions={"u1": "b", "u2": "a"})
    settled = settle_pool(plan_pool(seen, NOW), PoolOutcome())
    assert said(settled, "InUse") == "True SessionsLeft: it is deleted when these are gone: a, b"
    assert settled.status.sessions == 2


def test_how_many_public_ports_there_are_is_said_where_clients_need_some() -> None:
    def told(exposure: str, *protocols: str) -> int | None:
        made = template()
        made.spec.exposure = exposure  # type: ignore[assignment]
        made.spec.pod_templates[0].ports = [
            Port(name=f"p{number}", port=7000 + number, protocol=each)  # type: ignore[arg-type]
            for number, each in enumerate(protocols)
        ]
        plan = plan_pool(PoolObserved(template=made, public_ports=20), NOW)
        return settle_pool(plan, PoolOutcome()).status.public_ports

    assert told("Gateway", "HTTP", "UDP") == 20
    assert told("GatewayAPI", "TCP") == 20
    assert told("Gateway", "HTTP") is None
    assert told("HostPort", "UDP") is None


def test_a_plan_is_a_value() -> None:
    seen = PoolObserved(template=template(warm_pods=2), pool={"p": entry()})
    plan = plan_pool(seen, NOW)
    assert plan == plan_pool(seen, NOW)
    with pytest.raises(AttributeError):
        plan.more = True


# What is remembered --------------------------------------------------------------------


def pool(**pods: Entry) -> dict[str, Entry]:
    return pods


def test_a_pod_that_is_taken_is_noticed_by_what_is_left() -> None:
    history = PoolHistory().looked_at(pool(a=entry(), b=entry()), NOW)
    assert (history.waiting, history.taken_at) == (2, 0.0)
    history = history.looked_at(pool(a=entry(), b=entry("somebody")), NOW + 1)
    assert (history.waiting, history.taken_at) == (1, NOW + 1)
    assert history.looked_at(pool(a=entry(), c=entry()), NOW + 2).taken_at == NOW + 1


def test_since_when_a_pod_is_not_ready_stays_until_it_is() -> None:
    slow = entry(ready=False)
    history = PoolHistory().looked_at(pool(a=slow), NOW).looked_at(pool(a=slow), NOW + 5)
    assert history.unready_since == {"a": NOW}
    assert not history.looked_at(pool(a=entry()), NOW + 6).unready_since
    # The clock was set back.
    assert history.looked_at(pool(a=slow), NOW - 50).unready_since == {"a": NOW - 50}


def test_failures_in_a_row_rest_longer_each_time() -> None:
    rests, now, history = [], NOW, PoolHistory()
    for _ in range(4):
        history = history.failed({REVISION}, now)
        rests.append(history.rests[REVISION].until - now)
        now = history.rests[REVISION].until
    assert rests == [1.0, 2.0, 4.0, 8.0]
    forgiven = history.failed({REVISION}, now + 3600).rests[REVISION]
    assert forgiven.failures == 1, "a failure of long ago is forgiven"
    assert history.refused({REVISION}, now).rests[REVISION].until == now + ASK_AGAIN
    assert history.failed({"other"}, now).rests[REVISION] == history.rests[REVISION]


def test_a_template_that_was_mended_is_not_held_to_account() -> None:
    history = PoolHistory().failed({REVISION, "main-old"}, NOW)
    assert history.followed(template()).rests.keys() == {REVISION}


def test_a_condition_of_another_kind_is_not_taken_for_a_reason() -> None:
    made = template(warm_pods=1)
    other = Condition(
        type="Degraded",
        status="True",
        reason="ResourceRefused",
        last_transition_time="",
        message="no",
    )
    made.status = msgspec.structs.replace(made.status, conditions=[other])
    plan = plan_pool(PoolObserved(template=made, resting_until={REVISION: NOW + 9}), NOW)
    assert said(settle_pool(plan, PoolOutcome()), "Degraded") == "False AsExpected"
