"""The plan by itself: what is seen, and what follows from it.

A row is a sentence, what is seen, and what the plan makes of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.exposure import Port
from edgewise.api.sessions import (
    ClientStatus,
    Failures,
    IdlePod,
    PodTemplate,
    Reset,
    Session,
    SessionSpec,
    SessionStatus,
    TemplateRef,
    Workload,
)
from edgewise.exposure.site import Site
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.observed import ClaimSeen, Observed, PodsOnShelf, TemplateSeen
from edgewise.sessions.plan import Plan, plan
from edgewise.sessions.pods import made_from
from edgewise.sessions.settle import Outcome, settle
from edgewise.workloads.deadlines import stamp
from edgewise.workloads.names import pod_name
from edgewise.workloads.pods_seen import PodSeen

NOW = 1_800_000_000.0
SITE = Site(seat_key=b"k" * 32, public_url="http://edge.example", public_host="edge.example")
TEMPLATE = PodTemplate(
    name="main",
    ports=[Port(name="http", port=80)],
    template={"spec": {"containers": [{"name": "main", "image": "room"}]}},
)
MADE = made_from(TEMPLATE, Workload(pod_templates=[TEMPLATE]))


def pod(number: int, **fields: Any) -> PodSeen:
    values: dict[str, Any] = {
        "name": f"p{number}",
        "uid": f"u{number}",
        "revision": MADE.name,
        "ordinal": number,
        "ip": f"10.0.0.{number}",
        "ready": True,
        **fields,
    }
    return PodSeen(**values)


def seated(number: int, **fields: Any) -> ClientStatus:
    url = f"http://edge.example/s/{'x' * 26}/http/"
    values: dict[str, Any] = {
        "phase": "Ready",
        "ready": True,
        "pods": {"main": f"p{number}"},
        "endpoints": {"main": {"http": url}},
        **fields,
    }
    return ClientStatus(**values)


class Seen(msgspec.Struct, kw_only=True):
    """A session in few words."""

    clients: dict[str, bool]
    records: dict[str, ClientStatus] = {}
    recorded: dict[str, str] = {}  # pod -> address
    next: int = 0
    idle: dict[str, IdlePod] = {}
    pods: list[PodSeen] = []
    shelf: list[tuple[PodSeen, ClaimSeen | None]] = []
    workload: dict[str, Any] = {}
    template: dict[str, Any] = {}
    other: dict[str, Any] = {}

    def observed(self) -> Observed:
        template = msgspec.structs.replace(TEMPLATE, **self.template)
        workload = Workload(pod_templates=[template], **self.workload)
        revision = made_from(template, workload)
        status = SessionStatus(
            next=self.next,
            clients=self.records,
            pods={MADE.name: self.recorded} if self.recorded else {},
            revisions={MADE.name: MADE.revision} if self.recorded else {},
            idle=self.idle,
        )
        spec = SessionSpec(
            template_ref=TemplateRef(name="room"),
            clients={client: {"connected": there} for client, there in self.clients.items()},
        )
        meta = ObjectMeta(name="s", namespace="n", uid="uid", resource_version="1", generation=1)
        values: dict[str, Any] = {
            "session": Session(metadata=meta, spec=spec, status=status),
            "site": SITE,
            "workload": workload,
            "template": TemplateSeen(name="room", uid="t"),
            "pods": {each.name: each for each in self.pods},
            "free_pods": PodsOnShelf({revision.name: tuple(self.shelf)}),
            **self.other,
        }
        return Observed(**values)


class Result(msgspec.Struct):
    """What matters of a plan, in few words."""

    seats: dict[str, str]
    phases: dict[str, str]
    created: int
    claimed: list[str]
    removed: list[str]
    confirm: list[str]
    deadline: float | None
    next: int


def all_acked(decision: Plan) -> Outcome:
    return Outcome(acked=[route.id for each in decision.publish for route in each.routes])


def result_of(seen: Seen) -> Result:
    decision = plan(seen.observed(), NOW)
    settled = settle(decision, all_acked(decision))
    status, deadline = settled.status, settled.next_deadline
    return Result(
        seats={c: each.pods["main"] for c, each in status.clients.items() if each.pods},
        phases={client: each.phase for client, each in status.clients.items()},
        created=len(decision.create),
        claimed=[order.pod.name for order in decision.claim],
        removed=[order.pod.name for order in decision.remove],
        confirm=list(decision.confirm),
        deadline=None if deadline is None else deadline - NOW,
        next=status.next,
    )


IN_TIME, TOO_LATE = stamp(NOW + 3), stamp(NOW - 3)
WAITING = IdlePod(phase="WaitForReuse", until=IN_TIME)

POD = pod_name("s", "uid", "main", 0).removesuffix("-0")


def failing() -> ClientStatus:
    failures = Failures(count=3, until=IN_TIME, revision=MADE.name, reason="Error")
    return ClientStatus(phase="Starting", failures={"main": failures})


ROWS: dict[str, tuple[Seen, dict[str, Any]]] = {
    "whoever joins an empty session gets a new pod": (
        Seen(clients={"ann": True}),
        {"created": 1, "phases": {"ann": "Starting"}, "next": 1},
    ),
    "a pod that a dead operator made is used": (
        Seen(clients={"ann": True}, pods=[pod(0)]),
        {"created": 0, "seats": {"ann": "p0"}, "phases": {"ann": "Ready"}, "next": 1},
    ),
    "a pod that was dropped is not used again": (
        Seen(clients={"ann": True}, next=1, pods=[pod(0)]),
        {"created": 1, "removed": ["p0"], "next": 2},
    ),
    "a pod that nobody needs any more is counted before it goes": (
        Seen(clients={}, pods=[pod(0)]),
        {"removed": ["p0"], "next": 1},
    ),
    "a free seat is better than an idle pod": (
        Seen(
            clients={"ann": True, "bob": True},
            records={"ann": seated(0)},
            recorded={"p0": "10.0.0.0", "p1": "10.0.0.1"},
            next=2,
            idle={"p1": WAITING},
            pods=[pod(0), pod(1)],
            template={"max_clients": 2},
            workload={"reutilize_timeout_seconds": 5},
        ),
        {"seats": {"ann": "p0", "bob": "p0"}, "created": 0, "deadline": 3.0},
    ),
    "an idle pod is better than a warm one": (
        Seen(
            clients={"ann": True},
            recorded={"p0": "10.0.0.0"},
            next=1,
            idle={"p0": WAITING},
            pods=[pod(0)],
            shelf=[(pod(7), None)],
            workload={"reutilize_timeout_seconds": 5},
        ),
        {"seats": {"ann": "p0"}, "claimed": [], "created": 0},
    ),
    "a warm pod is better than a new one": (
        Seen(clients={"ann": True}, shelf=[(pod(7), None)]),
        {"seats": {"ann": "p7"}, "claimed": ["p7"], "created": 0, "next": 1},
    ),
    "a pod that is being made clean is nobody's yet": (
        Seen(
            clients={"ann": True},
            recorded={"p0": "10.0.0.0"},
            next=1,
            idle={"p0": IdlePod(phase="Resetting", until=IN_TIME)},
            pods=[pod(0)],
            template={"reset": Reset(http_path="/reset")},
            workload={"reutilize_timeout_seconds": 5},
        ),
        {"created": 1},
    ),
    "a pod on a lost node gets no more clients": (
        Seen(
            clients={"ann": True, "bob": True},
            records={"ann": seated(0)},
            recorded={"p0": "10.0.0.0"},
            next=1,
            pods=[pod(0, node="far")],
            template={"max_clients": 2},
            other={"lost_nodes": {"far": NOW - 10}},
        ),
        {"created": 1, "deadline": 20.0},
    ),
    "a recorded pod that is not seen is asked for": (
        Seen(
            clients={"ann": True}, records={"ann": seated(0)}, recorded={"p0": "10.0.0.0"}, next=1
        ),
        {"confirm": ["p0"], "created": 0, "seats": {"ann": "p0"}},
    ),
    "a recorded pod that is gone for certain is replaced": (
        Seen(
            clients={"ann": True},
            records={"ann": seated(0)},
            recorded={"p0": "10.0.0.0"},
            next=1,
            other={"gone": frozenset(["p0"])},
        ),
        {"created": 1, "phases": {"ann": "Recovering"}, "next": 2},
    ),
    "a disconnected client waits": (
        Seen(
            clients={"ann": False},
            records={"ann": seated(0)},
            recorded={"p0": "10.0.0.0"},
            next=1,
            pods=[pod(0)],
            workload={"timeout_seconds": 10},
        ),
        {"phases": {"ann": "Disconnected"}, "deadline": 10.0, "seats": {"ann": "p0"}},
    ),
    "a disconnected client whose time is up loses its seat and the pod goes": (
        Seen(
            clients={"ann": False},
            records={"ann": seated(0, phase="Disconnected", until=TOO_LATE)},
            recorded={"p0": "10.0.0.0"},
            next=1,
            pods=[pod(0)],
            workload={"timeout_seconds": 10},
        ),
        {"phases": {"ann": "Expired"}, "removed": ["p0"], "seats": {}},
    ),
    "who was lost and is back is ready again": (
        Seen(
            clients={"ann": True},
            records={"ann": seated(0, phase="Disconnected", until=TOO_LATE)},
            recorded={"p0": "10.0.0.0"},
            next=1,
            pods=[pod(0)],
            workload={"timeout_seconds": 10},
        ),
        {"phases": {"ann": "Ready"}, "deadline": None, "removed": []},
    ),
    "an idle pod whose time is up goes": (
        Seen(
            clients={},
            recorded={"p0": "10.0.0.0"},
            next=1,
            idle={"p0": IdlePod(phase="WaitForReuse", until=TOO_LATE)},
            pods=[pod(0)],
            workload={"reutilize_timeout_seconds": 5},
        ),
        {"removed": ["p0"], "deadline": None},
    ),
    "a client whose pods keep failing gets no new one before its time, and nobody waits with it": (
        Seen(
            clients={"ann": True, "bob": True},
            records={"ann": failing()},
        ),
        {"created": 1, "deadline": 3.0, "seats": {"bob": f"{POD}-0"}},
    ),
    "a client whose pods kept failing gets one of an edited template at once": (
        Seen(
            clients={"ann": True},
            records={"ann": failing()},
            template={"template": {"spec": {"containers": [{"name": "main", "image": "better"}]}}},
        ),
        {"created": 1, "seats": {"ann": f"{POD}-0"}},
    ),
    "a deadline that is out of reach is drawn in": (
        Seen(
            clients={"ann": False},
            records={"ann": seated(0, phase="Disconnected", until=stamp(NOW + 9999))},
            recorded={"p0": "10.0.0.0"},
            next=1,
            pods=[pod(0)],
            workload={"timeout_seconds": 10},
        ),
        {"deadline": 10.0},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_plan_says_that(row: str) -> None:
    seen, wanted = ROWS[row]
    result = result_of(seen)
    assert {name: getattr(result, name) for name in wanted} == wanted


def test_a_plan_changes_nothing_that_it_was_shown() -> None:
    seen = ROWS["a disconnected client whose time is up loses its seat and the pod goes"][
        0
    ].observed()
    before = msgspec.json.encode(seen.session)
    settle(plan(seen, NOW), Outcome())
    assert msgspec.json.encode(seen.session) == before


def test_the_same_view_leads_to_the_same_plan() -> None:
    for seen, _ in ROWS.values():
        assert result_of(seen) == result_of(seen)


def test_a_settled_session_is_not_written() -> None:
    seen = ROWS["who was lost and is back is ready again"][0]
    settled = settle(plan(seen.observed(), NOW), Outcome())
    assert settled.patch is not None
    after = seen.observed()
    after.session.status = settled.status
    assert settle(plan(after, NOW + 1), Outcome()).patch is None


def test_two_thousand_clients_fit_into_one_object() -> None:
    clients = [f"client-{number:05d}" for number in range(2000)]
    observed = Seen(
        clients=dict.fromkeys(clients, True),
        pods=[pod(number, ip=f"10.0.{number >> 8}.{number & 255}") for number in range(2000)],
    ).observed()
    decision = plan(observed, NOW)
    observed.session.status = settle(decision, all_acked(decision)).status
    assert all(record.ready for record in observed.session.status.clients.values())
    # etcd takes 1.5 MiB, and managed fields do not grow with the clients.
    assert len(msgspec.json.encode(observed.session)) < 600_000
