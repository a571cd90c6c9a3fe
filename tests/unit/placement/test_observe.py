"""What the plan is told of a cluster: from real caches, filled by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.placement import (
    COST_ANNOTATION,
    NAME_LABEL,
    SENTINEL_ANNOTATION,
    LatencyPlacement,
)
from edgewise.kube.kinds.apps import Deployment, ReplicaSet
from edgewise.kube.kinds.core import Node, Pod
from edgewise.placement.board import VoteBoard
from edgewise.placement.observe import Memory, observe
from edgewise.placement.observed import Observed, PodHere, Role
from edgewise.placement.reports import Heard, PlacementHeard, Summary
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.deadlines import stamp

NOW = 1_800_000_000.0
COST = "controller.kubernetes.io/pod-deletion-cost"
LABELS = {"app": "web", NAME_LABEL: "web"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
}


def owner(kind: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": kind.lower(), "uid": uid, "controller": True}


class Ground:
    """A Deployment with an old and a new ReplicaSet, two nodes, and pods to be added."""

    def __init__(self, **spec: Any) -> None:
        self.clock = NOW
        self.board = VoteBoard(lambda: self.clock)
        self.memory = Memory()
        self.caches: dict[type, Cache[Any]] = {
            kind: Cache(kind) for kind in (LatencyPlacement, Deployment, ReplicaSet, Node, Pod)
        }
        self.placement = self.add(
            LatencyPlacement, "web", uid="p", spec={"target": {"name": "web"}, **spec}
        )
        self.add(Deployment, "web", uid="d", spec={"replicas": 1, "template": TEMPLATE})
        old: dict[str, Any] = {
            **TEMPLATE,
            "spec": {"containers": [{"name": "web", "image": "old"}]},
        }
        for name, template in (("old", old), ("new", TEMPLATE)):
            self.add(
                ReplicaSet,
                f"web-{name}",
                uid=name,
                labels={**LABELS, "pod-template-hash": name},
                owners=[owner("Deployment", "d")],
                spec={"replicas": int(name == "new"), "template": template},
            )
        for name in ("n1", "n2"):
            self.add(Node, name, uid=name, namespace="", labels={"kubernetes.io/hostname": name})

    def add(
        self,
        kind: type,
        name: str,
        *,
        uid: str,
        namespace: str = "shop",
        labels: dict[str, str] | None = None,
        owners: list[dict[str, Any]] | None = None,
        annotations: dict[str, str] | None = None,
        **rest: Any,
    ) -> Any:
        meta: dict[str, Any] = {"name": name, "uid": uid, "labels": labels or {}}
        meta |= {"ownerReferences": owners or [], "annotations": annotations or {}}
        meta |= {"namespace": namespace} if namespace else {}
        made: Any = msgspec.convert({"metadata": meta, **rest}, kind)
        cache = self.caches[kind]
        cache.replace([*cache, made], "1")
        return made

    def pod(self, name: str, **given: Any) -> None:
        ready = given.pop("ready_since", NOW - 60)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(ready)}]
        given.setdefault("status", {"conditions": conditions})
        given.setdefault("spec", {"nodeName": "n1", "containers": [{"name": "web"}]})
        given["labels"] = {**LABELS, **given.get("labels", {})}
        self.add(Pod, name, uid=f"uid-{name}", **given)

    def hears(self, *pods: tuple[str, float]) -> None:
        heard = [
            Heard(subject=uid, rtt_ms=ms, p95_ms=ms, clients=1, last_age=0.5) for uid, ms in pods
        ]
        told = PlacementHeard(namespace="shop", name="web", uid="p", pods=heard)
        self.board.take(Summary(boot="b", version=1, placements=[told]))

    def seen(self) -> Observed:
        cache: Any = self.caches
        return observe(self.placement, cache, self.board, self.memory, self.clock)

    def only_pod(self) -> PodHere:
        (found,) = self.seen().pods
        return found


# Who controls a pod, what is on it, and what it is then.
OURS = {SENTINEL_ANNOTATION: "p"}
ROLES: dict[str, tuple[dict[str, Any], Role | None]] = {
    "of the newest ReplicaSet": ({"owners": [owner("ReplicaSet", "new")]}, Role.REPLICA),
    "of an earlier one": ({"owners": [owner("ReplicaSet", "old")]}, Role.OLD),
    "of the placement": ({"owners": [owner("LatencyPlacement", "p")]}, Role.SENTINEL),
    "promoted, and not adopted yet": (
        {"annotations": OURS, "labels": {"pod-template-hash": "new"}},
        Role.PROMOTED,
    ),
    "promoted to a ReplicaSet that is gone": (
        {"annotations": OURS, "labels": {"pod-template-hash": "gone"}},
        Role.STRAY,
    ),
    "promoted and adopted": (
        {"annotations": OURS, "owners": [owner("ReplicaSet", "new")]},
        Role.REPLICA,
    ),
    "nobody's, with the label": ({}, None),
    "of another placement": ({"owners": [owner("LatencyPlacement", "q")]}, None),
    "a sentinel of another placement before it": (
        {"annotations": {SENTINEL_ANNOTATION: "q"}},
        None,
    ),
}


@pytest.mark.parametrize("sentence", ROLES)
def test_what_a_pod_is_follows_from_who_controls_it(sentence: str) -> None:
    given, role = ROLES[sentence]
    ground = Ground()
    ground.pod("web-1", **given)
    assert [pod.role for pod in ground.seen().pods] == ([role] if role else [])


def replica(ground: Ground, **given: Any) -> None:
    ground.pod("web-1", owners=[owner("ReplicaSet", "new")], **given)


def test_the_revision_is_that_of_the_template_that_the_deployment_has_now() -> None:
    target = Ground().seen().target
    assert target is not None
    assert (target.revision, target.rolling, target.replicas) == ("new", False, 1)


def test_an_old_replica_set_that_still_has_pods_is_a_rollout() -> None:
    ground = Ground()
    sets = ground.caches[ReplicaSet]
    old = next(each for each in sets if each.metadata.uid == "old")
    old.spec["replicas"] = 1
    target = ground.seen().target
    assert target is not None
    assert target.rolling


@pytest.mark.parametrize(
    ("annotations", "ours"), [({COST: "5"}, False), ({COST: "-1000", COST_ANNOTATION: ""}, True)]
)
def test_a_cost_of_ours_is_seen_and_one_of_others_is_not(
    annotations: dict[str, str], ours: bool
) -> None:
    ground = Ground()
    replica(ground, annotations=annotations)
    assert ground.only_pod().cost is ours


def test_a_pod_is_ready_since_whichever_clock_is_earlier() -> None:
    for since, wanted in ((NOW - 60, NOW - 60), (NOW + 3600, NOW)):
        ground = Ground()
        replica(ground, ready_since=since)
        assert ground.only_pod().ready_since == wanted


def test_unschedulable_counts_from_when_this_operator_saw_it() -> None:
    ground = Ground()
    stuck = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ground.pod(
        "web-s0",
        owners=[owner("LatencyPlacement", "p")],
        spec={"containers": []},
        status={"conditions": [stuck]},
    )
    assert ground.only_pod().unschedulable_since == NOW
    ground.clock += 5
    assert ground.only_pod().unschedulable_since == NOW


def test_above_the_threshold_counts_from_the_first_moment_and_anew_after_a_better_one() -> None:
    ground = Ground(threshold={"p95Ms": 50})
    replica(ground)
    for second, p95, since in (
        (0, 40, None),
        (1, 60, NOW + 1),
        (2, 70, NOW + 1),
        (3, 50, None),
        (4, 51, NOW + 4),
    ):
        ground.clock = NOW + second
        ground.hears(("uid-web-1", p95))
        assert ground.seen().over_since == since, second


def test_a_far_sentinel_is_not_above_the_threshold() -> None:
    """It is there to be measured: only what users of replicas wait for begins a search."""
    ground = Ground(threshold={"p95Ms": 50})
    replica(ground)
    ground.pod("web-s0", owners=[owner("LatencyPlacement", "p")])
    ground.hears(("uid-web-1", 10), ("uid-web-s0", 400))
    assert ground.seen().over_since is None


def test_what_was_told_of_a_placement_of_the_same_name_before_counts_for_nothing() -> None:
    ground = Ground()
    replica(ground)
    ground.hears(("uid-web-1", 10))
    assert list(ground.seen().heard) == ["uid-web-1"]
    ground.placement.metadata.uid = "q"
    assert ground.seen().heard == {}


def test_of_two_placements_for_one_target_the_first_one_acts() -> None:
    ground = Ground()
    second = ground.add(LatencyPlacement, "other", uid="q", spec={"target": {"name": "web"}})
    ground.placement, first = second, ground.placement
    for each, says in ((first, False), (second, True)):
        each.metadata.creation_timestamp = f"2026-01-01T00:00:0{int(says)}Z"
    assert "LatencyPlacement web looks after Deployment web already" in ground.seen().problem
    ground.placement = first
    assert ground.seen().problem == ""
