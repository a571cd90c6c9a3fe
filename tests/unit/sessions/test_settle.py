"""A plan is a value, and what it came to is a second pure step.

Each row of the plan's own table is settled with every kind of outcome.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from edgewise.api.exposure import Port
from edgewise.api.sessions import ClientPhase, Refusal
from edgewise.exposure.port_index import PortClaimSeen
from edgewise.sessions.observed import ListedPorts, PodsOnShelf
from edgewise.sessions.plan import Plan, plan
from edgewise.sessions.settle import ASK_AGAIN, OFFER_AGAIN, Outcome, Settled, settle
from edgewise.workloads.deadlines import stamp
from tests.unit.sessions.test_plan import MADE, NOW, ROWS, Seen, all_acked, pod, seated


def routes_of(decision: Plan) -> list[str]:
    return [route.id for each in decision.publish for route in each.routes]


OUTCOMES: dict[str, Callable[[Plan], Outcome]] = {
    "all is well": all_acked,
    "the gateways are silent": lambda _: Outcome(complaint="nobody answers"),
    "a gateway cannot listen": lambda decision: Outcome(
        rejected=dict.fromkeys(routes_of(decision), "cannot listen")
    ),
    "the API server refuses the pods": lambda decision: msgspec.structs.replace(
        all_acked(decision),
        refused_pods={order.name: "exceeded quota" for order in decision.create},
    ),
    "the API server refuses the objects": lambda decision: msgspec.structs.replace(
        all_acked(decision), refused_children={"chat": "ConfigMap chat: no"}
    ),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("how", OUTCOMES)
def test_settling_changes_neither_the_plan_nor_what_it_saw(row: str, how: str) -> None:
    seen = ROWS[row][0]
    decision = plan(seen.observed(), NOW)
    outcome = OUTCOMES[how](decision)
    settled = settle(decision, outcome)
    assert settle(decision, outcome) == settled, "twice the same"
    assert plan(seen.observed(), NOW) == decision, "as if it had never been settled"
    # Another outcome of the same plan is not coloured by the first.
    fresh = plan(seen.observed(), NOW)
    assert settle(decision, all_acked(decision)) == settle(fresh, all_acked(fresh))


def test_a_plan_cannot_be_changed() -> None:
    decision = plan(Seen(clients={"ann": True}).observed(), NOW)
    with pytest.raises(AttributeError):
        decision.create = ()
    with pytest.raises(AttributeError):
        decision.prospect.next = 7
    with pytest.raises(AttributeError):
        decision.prospect.seen.pods = {}


# What follows from an outcome ----------------------------------------------------------

ONE_POD = Seen(clients={"ann": True}, pods=[pod(0)])


def settled(seen: Seen, how: str) -> Settled:
    decision = plan(seen.observed(), NOW)
    return settle(decision, OUTCOMES[how](decision))


def test_a_client_is_ready_once_the_gateways_serve_it() -> None:
    done = settled(ONE_POD, "all is well")
    assert done.status.clients["ann"].phase == ClientPhase.READY
    assert [(client, before) for client, before, _ in done.changes] == [("ann", None)]


@pytest.mark.parametrize(
    ("how", "reason", "message"),
    [
        ("the gateways are silent", "GatewaySilent", "nobody answers"),
        ("a gateway cannot listen", "RouteRefused", "cannot listen"),
    ],
)
def test_until_then_it_waits_and_says_why(how: str, reason: str, message: str) -> None:
    done = settled(ONE_POD, how)
    record = done.status.clients["ann"]
    assert (record.ready, record.phase) == (False, ClientPhase.STARTING)
    assert (record.reason, record.message) == (reason, message)
    assert record.endpoints == {}
    assert done.next_deadline == NOW + OFFER_AGAIN
    assert not done.digest.ready


def test_a_client_that_is_served_keeps_its_address_while_a_gateway_is_silent() -> None:
    """Its pod came back under another address, and the gateways do not know yet."""
    seen = Seen(
        clients={"ann": True},
        records={"ann": seated(0)},
        recorded={"p0": "10.9.9.9"},
        next=1,
        pods=[pod(0)],
    )
    before, after = seen.records["ann"], settled(seen, "the gateways are silent")
    record = after.status.clients["ann"]
    assert (record.phase, record.endpoints) == (ClientPhase.NOT_READY, before.endpoints)


def test_nobody_sits_in_a_pod_that_was_refused() -> None:
    done = settled(Seen(clients={"ann": True}), "the API server refuses the pods")
    record = done.status.clients["ann"]
    assert record.pods == {}
    assert record.reason == "PodsRefused"
    assert done.status.pods == {}
    assert done.status.refusals[MADE.name].count == 1
    assert done.status.next == 1, "its number is not given twice"
    assert [note.reason for note in done.notes] == ["PodsRefused"]


def test_a_yes_ends_a_refusal() -> None:
    seen = Seen(clients={"ann": True}).observed()
    no = Refusal(count=2, at=stamp(NOW - 9), until=stamp(NOW - 1), message="exceeded quota")
    seen.session.status.refusals = {MADE.name: no}
    decision = plan(seen, NOW)
    assert decision.create
    assert decision.prospect.refusals, "the plan does not know the answer"
    assert settle(decision, Outcome()).status.refusals == {}


def test_an_object_that_was_refused_is_asked_for_again() -> None:
    done = settled(ONE_POD, "the API server refuses the objects")
    degraded = next(each for each in done.status.conditions if each.type == "Degraded")
    assert (degraded.reason, degraded.message) == ("ResourceRefused", "ConfigMap chat: no")
    assert done.next_deadline == NOW + ASK_AGAIN
    assert done.status.clients["ann"].ready, "it does not concern her"


def test_a_port_at_which_no_gateway_can_listen_is_given_up() -> None:
    seen = Seen(
        clients={"ann": True},
        pods=[],
        template={"ports": [Port(name="game", port=7777, protocol="UDP")]},
        other={"free_ports": ListedPorts((20001, 20002))},
    ).observed()
    revision = plan(seen, NOW).create[0].made.name
    seen = msgspec.structs.replace(
        seen, free_pods=PodsOnShelf({revision: ((pod(5, revision=revision), None),)})
    )
    decision = plan(seen, NOW)
    assert [order.number for order in decision.claim_ports] == [20001]
    claim = PortClaimSeen(number=20001, protocol="UDP", uid="c", version="1")
    done = settle(
        decision,
        Outcome(
            rejected=dict.fromkeys(routes_of(decision), "cannot listen"),
            claimed_ports={("ann/main", "game"): claim},
        ),
    )
    assert [order.claim for order in done.free_ports] == [claim]
    assert done.unusable_ports == {20001}
    assert decision.free_ports == ()
