"""Workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet and Job. Pod templates stay open."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from edgewise.kube.kinds.core import ReportedCondition
from edgewise.kube.objects import Kind, Object, Record


class WorkloadStatus(Record):
    """What Deployments and StatefulSets say of their progress."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: list[ReportedCondition] = []


class Deployment(Object):
    KIND: ClassVar = Kind("apps", "v1", "Deployment", "deployments")

    spec: dict[str, Any] = {}
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class StatefulSet(Object):
    KIND: ClassVar = Kind("apps", "v1", "StatefulSet", "statefulsets")

    spec: dict[str, Any] = {}
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class DaemonSetStatus(Record):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0


class DaemonSet(Object):
    KIND: ClassVar = Kind("apps", "v1", "DaemonSet", "daemonsets")

    spec: dict[str, Any] = {}
    status: DaemonSetStatus = msgspec.field(default_factory=DaemonSetStatus)


class JobStatus(Record):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[ReportedCondition] = []


class Job(Object):
    KIND: ClassVar = Kind("batch", "v1", "Job", "jobs")

    spec: dict[str, Any] = {}
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class ReplicaSetStatus(Record):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0


class ReplicaSet(Object):
    KIND: ClassVar = Kind("apps", "v1", "ReplicaSet", "replicasets")

    spec: dict[str, Any] = {}
    status: ReplicaSetStatus = msgspec.field(default_factory=ReplicaSetStatus)
