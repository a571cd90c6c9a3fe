"""CustomResourceDefinitions, as the API server serves them."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from edgewise.kube.kinds.core import ReportedCondition
from edgewise.kube.objects import Kind, Object, Record


class CustomResourceDefinitionStatus(Record):
    # The API server writes null here before the names are accepted.
    conditions: list[ReportedCondition] | None = None
    stored_versions: list[str] | None = None


class CustomResourceDefinition(Object):
    KIND: ClassVar = Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
    )

    spec: dict[str, Any] = {}
    status: CustomResourceDefinitionStatus = msgspec.field(
        default_factory=CustomResourceDefinitionStatus
    )

    @property
    def established(self) -> bool:
        """Whether the API server serves the kind."""
        return any(
            condition.type == "Established" and condition.status == "True"
            for condition in self.status.conditions or ()
        )
