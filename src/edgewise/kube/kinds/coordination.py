"""Leases: who leads, and since when."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from edgewise.kube.objects import Kind, Object, Record


class LeaseSpec(Record):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    # RFC 3339 with microseconds, as the API server wants MicroTime.
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object):
    KIND: ClassVar = Kind("coordination.k8s.io", "v1", "Lease", "leases")

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)
