"""PriorityClasses: which pods go first when there is no room for all."""

from __future__ import annotations

from typing import ClassVar

from edgewise.kube.objects import Kind, Object


class PriorityClass(Object):
    KIND: ClassVar = Kind(
        "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False
    )

    # Not left out when it is 0: the API server wants it.
    value: int | None = None
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""
