"""What is written to pods, and when a status is: each may be the last write of an operator."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.placement import (
    COST_ANNOTATION,
    SENTINEL_ANNOTATION,
    LatencyPlacement,
    LatencyPlacementSpec,
    LatencyPlacementStatus,
    Phase,
    Ranked,
    Target,
)
from edgewise.kube.kinds.core import Pod
from edgewise.placement.apply import COST, Writer, clean, worth_writing
from edgewise.placement.board import VoteBoard
from edgewise.placement.controller import PlacementController
from edgewise.placement.draft import Promote
from edgewise.placement.metrics import PlacementMetrics
from edgewise.placement.observed import Observed, PodHere, Role
from edgewise.placement.plan import Plan
from edgewise.placement.ranking import Value
from edgewise.runtime.caching.cache import Cache

PLACED = LatencyPlacement.named("web", "shop", spec=LatencyPlacementSpec(target=Target(name="web")))
PLACED.metadata.uid = "p"


class Server:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.patched: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    async def patch(self, _: Pod, body: dict[str, Any]) -> None:
        self.patched.append(body)

    async def delete(self, pod: Pod) -> None:
        self.deleted.append(pod.metadata.name)


def pod(name: str = "web-1", **meta: Any) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", **meta}}, Pod
    )


def here(name: str = "web-1", role: Role = Role.REPLICA) -> PodHere:
    return PodHere(name=name, uid=f"uid-{name}", role=role, node="n1", ready=True)


def orders(**some: Any) -> Plan:
    empty: dict[str, Any] = dict.fromkeys(("create", "cost", "promote", "uncost", "delete"), ())
    return Plan(status=PLACED.status, told=(), deadline=None, **(empty | some))


async def written(known: Pod, plan: Plan) -> Server:
    api: Any = Server()
    cache: Cache[Pod] = Cache(Pod)
    cache.replace([known], "1")
    await Writer(api, cache, PLACED, {}).carry_out(plan, Observed(placement=PLACED, target=None))
    made: Server = api
    return made


@pytest.mark.parametrize("had", ["", "7"])
async def test_the_cost_that_a_pod_had_is_kept_beside_ours_and_given_back(had: str) -> None:
    bare = pod(annotations={COST: had} if had else {})
    server = await written(bare, orders(cost=(here(),)))
    (body,) = server.patched
    assert body == {"metadata": {"annotations": {COST: "-1000", COST_ANNOTATION: had}}}
    costly = pod(annotations={COST: "-1000", COST_ANNOTATION: had})
    again = await written(costly, orders(cost=(here(),)))
    assert again.patched == [], "ours would be taken for the one it had"
    server = await written(costly, orders(uncost=(here(),)))
    (body,) = server.patched
    assert body == {"metadata": {"annotations": {COST: had or None, COST_ANNOTATION: None}}}


async def test_a_promotion_is_one_patch_that_carries_the_version() -> None:
    """Were it two, the pod would be nobody's between them; an owner that stays keeps it alive
    after its Deployment is deleted."""
    ours = msgspec.to_builtins(PLACED.owner_reference())
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}
    sentinel = pod(ownerReferences=[ours, other], resourceVersion="42")
    promote = Promote(here(role=Role.SENTINEL), "rev1")
    (body,) = (await written(sentinel, orders(promote=(promote,)))).patched
    meta = body["metadata"]
    assert meta["labels"] == {"pod-template-hash": "rev1"}
    assert [each["uid"] for each in meta["ownerReferences"]] == ["c"]
    assert meta["resourceVersion"] == "42"


async def test_nothing_is_done_to_a_pod_that_only_has_the_name() -> None:
    successor = pod()
    successor.metadata.uid = "another"
    promote = Promote(here(role=Role.SENTINEL), "rev1")
    every = {"delete": (here(),), "cost": (here(),), "uncost": (here(),), "promote": (promote,)}
    server = await written(successor, orders(**every))
    assert (server.patched, server.deleted) == ([], [])


async def test_of_a_placement_that_is_gone_neither_a_cost_nor_an_orphan_stays() -> None:
    sentinel = {SENTINEL_ANNOTATION: "p"}
    owned = [
        {"apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    ]
    pods = [
        pod("replica", annotations={COST: "-1000", COST_ANNOTATION: "7"}),
        pod("adopted", annotations=sentinel, ownerReferences=owned),
        pod("about-to-be", annotations=sentinel, labels={"pod-template-hash": "rev1"}),
        pod("orphan", annotations=sentinel, labels={"pod-template-hash": "gone"}),
        pod("going", annotations=sentinel, deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    api: Any = Server()
    await clean(api, pods, {"rev1"})
    assert api.deleted == ["orphan"]
    assert api.patched == [{"metadata": {"annotations": {COST: "7", COST_ANNOTATION: None}}}]


def status(rtt: float = 10.0, **rest: Any) -> LatencyPlacementStatus:
    ranking = [Ranked(node="n1", rtt_ms=rtt)]
    return LatencyPlacementStatus(ranking=ranking, message=f"n1 at {rtt:.0f} ms", **rest)


# What was, what is, how old the last write is, and whether it is written.
WRITES: dict[str, tuple[LatencyPlacementStatus, LatencyPlacementStatus, float, bool]] = {
    "nothing changed": (status(), status(), 1e6, False),
    "a round began": (status(), status(round=1), 0.0, True),
    "a number moved a little": (status(10.0), status(10.5), 1e6, False),
    "a number moved, and the last write is old": (status(10.0), status(30.0), 20.0, True),
    "a number moved, and the last write is new": (status(10.0), status(30.0), 5.0, False),
    "a phase changed with a number": (status(10.0), status(30.0, phase=Phase.PAUSED), 0.0, True),
}


@pytest.mark.parametrize("sentence", WRITES)
def test_a_status_is_written_at_once_if_something_follows_from_it(sentence: str) -> None:
    before, after, age, writes = WRITES[sentence]
    assert worth_writing(before, after, age=age, searching=False) is writes


def test_the_metric_is_that_of_the_worst_replica_and_not_of_a_far_sentinel() -> None:
    metrics = PlacementMetrics()
    controller = PlacementController(VoteBoard(), metrics=metrics)

    def value(rtt: float) -> Value:
        return Value(node="n1", rtt_ms=rtt, p95_ms=rtt, n=1, last=0.0)

    gone = msgspec.structs.replace(here("old"), deleting=True)
    seen = Observed(
        placement=PLACED,
        target=None,
        pods=(here("a"), here("b"), here("far", Role.SENTINEL), gone),
        heard={"uid-a": value(10), "uid-b": value(30), "uid-far": value(500), "uid-old": value(90)},
    )
    controller._measure(PLACED, seen)
    labels = {"namespace": "shop", "placement": "web"}
    name = "edgewise_placement_rtt_milliseconds"
    assert metrics.registry.get_sample_value(name, labels) == 30
    metrics.forget("shop", "web")
    assert metrics.registry.get_sample_value(name, labels) is None


def test_rounds_moves_and_searches_are_counted_when_they_are_written() -> None:
    metrics = PlacementMetrics()
    controller = PlacementController(VoteBoard(), metrics=metrics)
    before = LatencyPlacement.named("web", "shop", spec=PLACED.spec)
    before.status = LatencyPlacementStatus(round=1, moves=4)
    after = LatencyPlacementStatus(
        round=3, moves=5, phase=Phase.CONVERGED, convergence_seconds=12.0
    )
    after.search.ended_at = "2026-01-01T00:00:00Z"
    plan = msgspec.structs.replace(orders(), status=after)
    controller._tell(before, plan)
    found = {
        name: metrics.registry.get_sample_value(f"edgewise_placement_{name}", labels)
        for name, labels in (
            ("rounds_total", {}),
            ("moves_total", {}),
            ("searches_total", {"phase": "Converged"}),
            ("search_seconds_sum", {}),
        )
    }
    assert found == {
        "rounds_total": 2,
        "moves_total": 1,
        "searches_total": 1,
        "search_seconds_sum": 12.0,
    }
