"""Pods of a namespace in a slice run on its nodes, and nowhere else: who sees to it.

The API server does so by itself where it has MutatingAdmissionPolicies, so that pods start there
while no operator runs. It asks policies before webhooks, and the webhook only for pods that are
not pinned then: elsewhere that is all of them. The policy `sliced-pods` looks at the result.
"""

from __future__ import annotations

from typing import Any

from edgewise.api.tenancy import GROUP, SLICE, TENANT_UID
from edgewise.kube.kinds.admission import (
    LabelSelector,
    MatchCondition,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.objects import Object
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Mutated, Verdict
from edgewise.runtime.webhooks.serving import Webhook

NAME = f"pods.slices.{GROUP}"
NO_SCHEDULE = "NoSchedule"
IN_SLICES: dict[str, Any] = {"matchExpressions": [{"key": SLICE, "operator": "Exists"}]}

_SLICE = f"namespaceObject.metadata.labels['{SLICE}']"
_SELECTED = f"has(object.spec.nodeSelector) && '{SLICE}' in object.spec.nodeSelector"
_TOLERATES = (
    f"has(object.spec.tolerations) && object.spec.tolerations.exists(t, has(t.key) && "
    f"t.key == '{SLICE}' && has(t.effect) && t.effect == '{NO_SCHEDULE}')"
)
# Of which slice, only the namespace says, and nobody sees that here: `sliced-pods` compares.
_NOT_PINNED = f"!({_SELECTED}) || !({_TOLERATES})"

_TOLERATION = (
    f"{{'key': '{SLICE}', 'operator': 'Equal', 'value': {_SLICE}, 'effect': '{NO_SCHEDULE}'}}"
)
_SELECT = (
    f"({_SELECTED} && object.spec.nodeSelector['{SLICE}'] == {_SLICE}) ? [] : "
    "(has(object.spec.nodeSelector) ? "
    f"[JSONPatch{{op: 'add', path: '/spec/nodeSelector/' + jsonpatch.escapeKey('{SLICE}'), "
    f"value: {_SLICE}}}] : "
    f"[JSONPatch{{op: 'add', path: '/spec/nodeSelector', value: {{'{SLICE}': {_SLICE}}}}}])"
)
_TOLERATE = (
    f"({_TOLERATES}) ? [] : (has(object.spec.tolerations) ? "
    f"[JSONPatch{{op: 'add', path: '/spec/tolerations/-', value: {_TOLERATION}}}] : "
    f"[JSONPatch{{op: 'add', path: '/spec/tolerations', value: [{_TOLERATION}]}}])"
)

PIN_PODS: tuple[Object, ...] = (
    MutatingAdmissionPolicy.named(
        NAME,
        spec={
            "failurePolicy": "Fail",
            # Should another one change the pod after us.
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "namespaceSelector": IN_SLICES,
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
            },
            "mutations": [
                {"patchType": "JSONPatch", "jsonPatch": {"expression": each}}
                for each in (_SELECT, _TOLERATE)
            ],
        },
    ),
    MutatingAdmissionPolicyBinding.named(NAME, spec={"policyName": NAME}),
)


class Pinning:
    """The same, by the operator."""

    def __init__(self, caches: SharedCaches) -> None:
        self._namespaces = caches.of(Namespace, Selection(labels=TENANT_UID))

    def pin(self, asked: AdmissionRequest[Pod]) -> Verdict:
        home = self._namespaces.find(asked.namespace)
        name = home.metadata.labels.get(SLICE, "") if home is not None else ""
        if not name:
            return Allowed()  # not seen yet: then the policy refuses it
        document = asked.document
        spec = document.setdefault("spec", {})
        spec.setdefault("nodeSelector", {})[SLICE] = name
        toleration = {"key": SLICE, "operator": "Equal", "value": name, "effect": NO_SCHEDULE}
        if toleration not in spec.setdefault("tolerations", []):
            spec["tolerations"].append(toleration)
        return Mutated(document)


def webhook(caches: SharedCaches) -> Webhook[Pod]:
    return Webhook(
        name=NAME,
        kind=Pod,
        review=Pinning(caches).pin,
        mutates=True,
        operations=("CREATE",),
        namespace_selector=LabelSelector(match_expressions=IN_SLICES["matchExpressions"]),
        match_conditions=(MatchCondition(name="not-pinned", expression=_NOT_PINNED),),
    )
