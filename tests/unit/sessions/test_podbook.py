"""Whose a pod is."""

from __future__ import annotations

from edgewise.kube.coordination import Lease
from edgewise.kube.core import Pod
from edgewise.runtime.cache import Cache
from edgewise.sessions import names
from edgewise.sessions.podbook import PodBook


def book() -> tuple[PodBook, Cache[Pod], Cache[Lease]]:
    made, pods, leases = PodBook(), Cache(Pod), Cache(Lease)
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
    books, pods, _ = book()
    pods.apply(pod("tenant-a", "10.0.0.1"))
    pods.apply(pod("tenant-b", "10.6.6.6"))
    assert {p.ip for p in books.pods_of("tenant-a", "uid-of-a").values()} == {"10.0.0.1"}
    assert len(books.pool_of("tenant-a", "uid-of-t")) == 1
    pods.apply(pod("tenant-b", "10.6.6.6"), deleted=True)
    assert {p.ip for p in books.pods_of("tenant-a", "uid-of-a").values()} == {"10.0.0.1"}
