"""Why a pod is not ready, by what Kubernetes shows of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.kube.kinds.core import Pod, ResourceQuota
from edgewise.sessions.indexes.room_index import has_more_room
from edgewise.workloads.pod_trouble import standing_of
from edgewise.workloads.wording import shorten, without_name


def pod(status: dict[str, Any], *, node: str = "n1", **container: Any) -> Pod:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "i", **container}]}
    raw = {"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status}
    return msgspec.json.decode(msgspec.json.encode(raw), type=Pod)


def main(**fields: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", **fields}]}


def waiting(reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return main(state={"waiting": {"reason": reason, "message": message}}, **fields)


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}
GATE = {
    "type": "Ready",
    "status": "False",
    "reason": "ReadinessGatesNotReady",
    "message": "the status of pod readiness gate x is not True",
}
HTTP_PROBE = {"httpGet": {"path": "/healthz", "port": 81}}

ROWS: dict[str, tuple[Pod, str, str, bool]] = {
    "an image that is not there": (
        pod(waiting("ImagePullBackOff", "Back-off pulling image i")),
        "ImagePullBackOff",
        "main: ImagePullBackOff: Back-off pulling image i",
        True,
    ),
    "a container that crashes, in words that stay the same": (
        pod(
            waiting(
                "CrashLoopBackOff",
                "back-off 40s restarting failed container=main pod=p_n(uid)",
                lastState={"terminated": {"exitCode": 3, "reason": "Error"}},
            )
        ),
        "CrashLoopBackOff",
        "main: Error with code 3, again and again",
        True,
    ),
    "a container that was killed for its memory": (
        pod(main(state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
        "OOMKilled",
        "main: OOMKilled with code 137",
        True,
    ),
    "an init container that fails": (
        pod(
            {
                "initContainerStatuses": [
                    {
                        "name": "setup",
                        "state": {"terminated": {"exitCode": 1, "message": "no such table"}},
                    }
                ]
            }
        ),
        "Error",
        "setup: ended with code 1: no such table",
        True,
    ),
    "no node that has room": (
        pod({"conditions": [UNSCHEDULABLE]}, node=""),
        "Unschedulable",
        "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
        True,
    ),
    "an eviction": (
        pod({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}),
        "Evicted",
        "Evicted: The node was low on memory",
        True,
    ),
    "a container that is being made": (
        pod(waiting("ContainerCreating")),
        "ContainerCreating",
        "main: ContainerCreating, since the kubelet has the pod",
        False,
    ),
    "a kubelet that has not spoken": (
        pod({}),
        "ContainerCreating",
        "node n1 has not started it yet",
        False,
    ),
    "a scheduler that has not spoken": (
        pod({}, node=""),
        "Scheduling",
        "no node was chosen yet",
        False,
    ),
    "a probe at a wrong port": (
        pod(main(state={"running": {}}), readinessProbe=HTTP_PROBE),
        "NotReady",
        "main: runs, but its readinessProbe does not succeed (HTTP /healthz at port 81)",
        False,
    ),
    "a readiness gate": (
        pod({**main(ready=True, state={"running": {}}), "conditions": [GATE]}),
        "ReadinessGatesNotReady",
        "the status of pod readiness gate x is not True",
        False,
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_keeps_a_pod_from_being_ready(row: str) -> None:
    seen, reason, text, trouble = ROWS[row]
    found = standing_of(seen)
    assert (found.reason, found.text, found.trouble) == (reason, text, trouble)


def test_a_long_message_keeps_its_end_where_the_cause_stands() -> None:
    words = f"failed to pull: {'x' * 500}: dial tcp: no such host"
    found = standing_of(pod(waiting("ErrImagePull", words))).text
    assert len(found) <= 300
    assert found.startswith("main: ErrImagePull: failed to pull")
    assert found.endswith("dial tcp: no such host")
    assert shorten("short") == "short"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ('pods "p-7" is forbidden: exceeded quota: q', "exceeded quota: q"),
        ('Pod "p-7" is invalid: spec.containers[0]: Required', "spec.containers[0]: Required"),
        (
            'admission webhook "w" denied: p-7 is ugly',
            'admission webhook "w" denied: the pod is ugly',
        ),
    ],
)
def test_the_same_refusal_reads_the_same_for_every_pod(said: str, kept: str) -> None:
    assert without_name(said, "p-7") == kept


def quota(**status: dict[str, str]) -> ResourceQuota:
    raw = {"metadata": {"name": "q", "namespace": "n"}, "status": status}
    return msgspec.json.decode(msgspec.json.encode(raw), type=ResourceQuota)


FULL = quota(hard={"pods": "4", "memory": "4Gi"}, used={"pods": "4", "memory": "512Mi"})


@pytest.mark.parametrize(
    ("what", "new", "more"),
    [
        ("one pod less", quota(hard=FULL.status.hard, used={"pods": "3", "memory": "512Mi"}), True),
        ("less memory", quota(hard=FULL.status.hard, used={"pods": "4", "memory": "0.4Gi"}), True),
        ("a higher limit", quota(hard={"pods": "5", "memory": "4Gi"}, used=FULL.status.used), True),
        ("no limit any more", quota(hard={"memory": "4Gi"}, used={"memory": "512Mi"}), True),
        ("no quota any more", None, True),
        ("nothing new", FULL, False),
        ("more memory", quota(hard=FULL.status.hard, used={"pods": "4", "memory": "1Gi"}), False),
        ("a lower limit", quota(hard={"pods": "3", "memory": "4Gi"}, used=FULL.status.used), False),
        (
            "a limit as good as none",
            quota(hard={"pods": "4", "memory": "1Ei"}, used=FULL.status.used),
            True,
        ),
        ("nonsense", quota(hard={"pods": "x", "memory": "4Gi"}, used=FULL.status.used), False),
    ],
)
def test_a_quota_has_more_room_after(what: str, new: ResourceQuota | None, more: bool) -> None:
    assert has_more_room(FULL, new) is more, what


def test_one_more_quota_makes_no_room() -> None:
    assert not has_more_room(None, FULL)
