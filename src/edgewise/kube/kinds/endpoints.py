"""EndpointSlices: which addresses stand behind a Service."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from edgewise.kube.objects import Kind, Object, Record


class EndpointConditions(Record):
    # The API leaves a condition out where it is not known, which counts as ready.
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class TargetRef(Record):
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class Endpoint(Record):
    addresses: list[str] = []
    conditions: EndpointConditions = msgspec.field(default_factory=EndpointConditions)
    node_name: str = ""
    zone: str = ""
    target_ref: TargetRef | None = None


class EndpointPort(Record):
    name: str = ""
    protocol: str = "TCP"
    port: int | None = None
    app_protocol: str = ""


class EndpointSlice(Object):
    KIND: ClassVar = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")

    address_type: str = "IPv4"
    # The API server writes null for an empty list here.
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None
