"""Whose a pod is."""

from __future__ import annotations

from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.caching.cache import Cache
from edgewise.sessions import names
from edgewise.sessions.indexes.pod_index import PodIndex


def book() -> tuple[PodIndex, Cache[Pod], Cache[Lease]]:
    made, pods, leases = PodIndex(), Cache(Pod), Cache(Lease)
    made.follow(pods, leases)
    return made, pods, leases


def pod(namespace: str, ip: str) -> Pod:
    made = Pod.named("room-0", namespace)
    made.metadata.uid = f"uid-in-{namespace}"
    made.metadata.resource_version = "1"
    made.metadata.labels = {names.SESSION_UID: "uid-of-a", names.TEMPLATE_UID: "uid-of-t"}
    made.status.pod_ip = ip
    return made


def test_a_pod_of_another_namespace_is_not_the_sessions_whatever_its_labels_say() -> None:
    indexes, pods, _ = book()
    pods.apply(pod("tenant-a", "10.0.0.1"))
    pods.apply(pod("tenant-b", "10.6.6.6"))
    assert {p.ip for p in indexes.pods_of("tenant-a", "uid-of-a").values()} == {"10.0.0.1"}
    assert len(indexes.pool_of("tenant-a", "uid-of-t")) == 1
    pods.apply(pod("tenant-b", "10.6.6.6"), deleted=True)
    assert {p.ip for p in indexes.pods_of("tenant-a", "uid-of-a").values()} == {"10.0.0.1"}
