"""Pods as a plan sees them: values, with what matters of each."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.kube.kinds.core import Pod
from edgewise.workloads.pod_trouble import Standing, standing_of

_NO_STANDING = Standing("", "")


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a pod."""

    name: str
    uid: str
    revision: str
    ordinal: int
    ip: str = ""
    host_ip: str = ""
    node: str = ""
    ready: bool = False
    ended: bool = False  # its containers have ended for good
    deleting: bool = False
    restarts: tuple[tuple[str, int], ...] = ()  # of its containers, where there were any
    pooled: bool = False  # belongs to a pool, and is only lent
    trouble: str = ""  # why it does not start, or does not go on
    # While it is not ready: how far it has come, and the one word for that (or for the trouble).
    standing: str = ""
    reason: str = ""
    crashing: bool = False  # the kubelet waits before it starts a container again
    # (container port, TCP or UDP) -> the port of its node that leads there
    host_ports: Mapping[tuple[int, str], int] = {}

    def restarts_of(self, container: str | None) -> int:
        return next((count for name, count in self.restarts if name == container), 0)


def see_pod(pod: Pod, *, revision: str, ordinal: str, pooled: bool) -> PodSeen:
    """What matters of a pod, given what its domain has written on it; an ordinal that is no
    number is -1."""
    meta, status = pod.metadata, pod.status
    ended = status.phase in ("Failed", "Succeeded")
    ready = pod.ready and not ended
    standing = _NO_STANDING if ready else standing_of(pod)
    return PodSeen(
        name=meta.name,
        uid=meta.uid,
        revision=revision,
        ordinal=int(ordinal) if ordinal.isdecimal() else -1,
        ip=status.pod_ip,
        host_ip=status.host_ip,
        node=pod.node_name,
        ready=ready,
        ended=ended,
        deleting=meta.deleting,
        restarts=tuple(
            (each.name, each.restart_count)
            for each in status.container_statuses
            if each.restart_count
        ),
        pooled=pooled,
        trouble=standing.text if standing.trouble else "",
        standing=standing.text,
        reason=standing.reason,
        crashing=standing.crashing,
        host_ports=host_ports_of(pod),
    )


def host_ports_of(pod: Pod) -> dict[tuple[int, str], int]:
    return {
        (int(port["containerPort"]), str(port.get("protocol", "TCP"))): int(port["hostPort"])
        for container in pod.spec.get("containers") or []
        for port in container.get("ports") or []
        if port.get("hostPort")
    }
