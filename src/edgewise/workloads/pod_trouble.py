"""Why a pod is not ready, in the words of whoever knows: the scheduler, the kubelet, or nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from edgewise.kube.kinds.core import ContainerStatus, Pod
from edgewise.workloads.wording import shorten

# Reasons for which a container waits as a matter of course.
_NORMAL_WAITING = frozenset(("ContainerCreating", "PodInitializing", ""))
CRASHING = "CrashLoopBackOff"


class Standing(msgspec.Struct, frozen=True):
    """How far a pod has come that is not ready."""

    reason: str
    text: str
    trouble: bool = False  # it will not become ready unless somebody does something
    crashing: bool = False  # the kubelet waits before it starts a container again


def standing_of(pod: Pod) -> Standing:
    return _trouble(pod) or _progress(pod)


def _trouble(pod: Pod) -> Standing | None:
    status = pod.status
    for each in (*status.init_container_statuses, *status.container_statuses):
        waiting: Mapping[str, Any] = each.state.get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if reason == CRASHING:
            return Standing(CRASHING, _crash(each), trouble=True, crashing=True)
        if reason not in _NORMAL_WAITING:
            words = ": ".join(filter(None, (each.name, reason, waiting.get("message"))))
            return Standing(reason, shorten(words), trouble=True)
        ended: Mapping[str, Any] = each.state.get("terminated") or {}
        if ended and ended.get("exitCode"):
            return Standing(str(ended.get("reason") or "Error"), _ended(each, ended), trouble=True)
    if status.reason or status.message:
        words = ": ".join(filter(None, (status.reason, status.message)))
        return Standing(status.reason or "Failed", shorten(words), trouble=True)
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            words = f"{condition.reason}: {condition.message}"
            return Standing(condition.reason or "Unschedulable", shorten(words), trouble=True)
    return None


def _crash(container: ContainerStatus) -> str:
    # The kubelet's own message names the pod and the length of its wait: it is never the same.
    ended = container.last_state.get("terminated") or {}
    if not ended:
        return f"{container.name}: {CRASHING}"
    return f"{_ended(container, ended)}, again and again"


def _ended(container: ContainerStatus, ended: Mapping[str, Any]) -> str:
    words = f"{container.name}: {ended.get('reason') or 'ended'} with code {ended.get('exitCode')}"
    message = str(ended.get("message") or "").strip()
    return shorten(f"{words}: {message}" if message else words)


def _progress(pod: Pod) -> Standing:
    if not pod.node_name:
        return Standing("Scheduling", "no node was chosen yet")
    if not pod.status.container_statuses:
        return Standing("ContainerCreating", f"node {pod.node_name} has not started it yet")
    return _of_containers(pod) or _of_the_pod(pod)


def _of_containers(pod: Pod) -> Standing | None:
    status = pod.status
    for each in (*status.init_container_statuses, *status.container_statuses):
        waiting = each.state.get("waiting")
        if waiting:
            reason = str(waiting.get("reason") or "ContainerCreating")
            return Standing(reason, f"{each.name}: {reason}, since the kubelet has the pod")
    for each in status.init_container_statuses:
        if each.state.get("running"):
            return Standing("PodInitializing", f"{each.name}: this init container is running")
    for each in status.container_statuses:
        if not each.ready:
            probe = _probe(pod, each.name)
            return Standing("NotReady", f"{each.name}: runs, but {probe}")
    return None


def _of_the_pod(pod: Pod) -> Standing:
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.message:
            return Standing(condition.reason or "NotReady", shorten(condition.message))
    return Standing("NotReady", "its containers run, but the pod is not ready")


def _probe(pod: Pod, container: str) -> str:
    """What the kubelet asks in vain. (Its answers are in the pod's events alone.)"""
    for each in pod.spec.get("containers") or ():
        if each.get("name") != container:
            continue
        for kind in ("startupProbe", "readinessProbe"):
            probe = each.get(kind)
            if isinstance(probe, dict):
                return f"its {kind} does not succeed ({_asked(probe)})"
    return "is not ready"


def _asked(probe: Mapping[str, Any]) -> str:
    for kind, words in (("httpGet", "HTTP"), ("tcpSocket", "TCP"), ("grpc", "gRPC")):
        asked = probe.get(kind)
        if isinstance(asked, dict):
            path = f" {asked['path']}" if asked.get("path") else ""
            return f"{words}{path} at port {asked.get('port')}"
    return "exec" if probe.get("exec") else "unknown"
