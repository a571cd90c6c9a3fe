"""Sets the runtime class of pods of tenants where the API server has no MutatingAdmissionPolicies.

Only there: while no operator answers, such a cluster starts no pods of tenants.
"""

from __future__ import annotations

from typing import Any

from edgewise.api.tenancy import GROUP
from edgewise.domain import Option
from edgewise.kube.kinds.admission import LabelSelector
from edgewise.kube.kinds.core import Pod
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import (
    AdmissionRequest,
    Allowed,
    Denied,
    Mutated,
    Verdict,
)
from edgewise.runtime.webhooks.serving import Webhook
from edgewise.tenancy import parameters
from edgewise.tenancy.policies.runtime_class import OUTSIDE_OF_SLICES

BY_WEBHOOK = Option(
    name="runtime-class-webhook",
    default=False,
    help="Set the runtime class of tenants' pods by a webhook, where the API server has no "
    "MutatingAdmissionPolicies.",
)


class RuntimeClassSetter:
    def __init__(self, caches: SharedCaches) -> None:
        selection = Selection(fields=f"metadata.name={parameters.NAME}")
        self._parameters: Cache[ClusterRole] = caches.of(ClusterRole, selection)

    def review(self, asked: AdmissionRequest[Any]) -> Verdict:
        found = self._parameters.find(parameters.NAME)
        if found is None:
            return Denied(f"the ClusterRole {parameters.NAME} is missing: install the chart again")
        wanted = parameters.parameters_in(found.metadata.annotations).runtime_class
        document = asked.document
        spec = document.get("spec", {})
        if not wanted or spec.get("runtimeClassName") == wanted:
            return Allowed()
        # Kubernetes has added that of the chosen class, and adds that of the new one.
        spec.pop("overhead", None)
        spec["runtimeClassName"] = wanted
        return Mutated(document)


def webhook(caches: SharedCaches) -> Webhook[Any]:
    return Webhook(
        name=f"runtime-class.{GROUP}",
        kind=Pod,
        review=RuntimeClassSetter(caches).review,
        mutates=True,
        operations=("CREATE",),
        namespace_selector=LabelSelector(match_expressions=OUTSIDE_OF_SLICES["matchExpressions"]),
    )
