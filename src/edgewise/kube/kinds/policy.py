"""PodDisruptionBudgets: how many pods an eviction has to leave."""

from __future__ import annotations

from typing import Any, ClassVar

from edgewise.kube.objects import Kind, Object


class PodDisruptionBudget(Object):
    KIND: ClassVar = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

    spec: dict[str, Any] = {}
