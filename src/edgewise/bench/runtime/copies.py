"""The kind that the runtime's benchmark works on: a spec with one field, to be copied."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from edgewise.api.crd import CrdSpec
from edgewise.kube.objects import Kind, Object, Record


class CopySpec(Record):
    """What is to be copied."""

    value: str = ""


class CopyStatus(Record):
    """The copy."""

    value: str = ""


class Copy(Object):
    """A value in the spec, and the same value in the status."""

    KIND: ClassVar = Kind("bench.edgewise.dev", "v1", "Copy", "copies")
    CRD: ClassVar = CrdSpec(categories=())

    spec: CopySpec = field(default_factory=CopySpec)
    status: CopyStatus = field(default_factory=CopyStatus)


def copy_name(number: int) -> str:
    return f"copy-{number}"
