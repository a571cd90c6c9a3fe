"""Events: what a controller tells people about an object."""

from __future__ import annotations

from typing import ClassVar

from edgewise.kube.objects import Kind, Object, Record


class ObjectReference(Record):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSeries(Record):
    count: int
    last_observed_time: str


class Event(Object):
    KIND: ClassVar = Kind("events.k8s.io", "v1", "Event", "events")

    # RFC 3339 with microseconds.
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
