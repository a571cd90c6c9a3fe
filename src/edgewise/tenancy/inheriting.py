"""Copies of a parent's objects in a child: which kinds, which objects, and how a copy looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from edgewise.api.tenancy import GROUP, INHERIT, MANAGED
from edgewise.kube.dynamic import dynamic
from edgewise.kube.kinds.core import ConfigMap, LimitRange, Secret, ServiceAccount
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import Role, RoleBinding
from edgewise.kube.objects import Object, ObjectMeta
from edgewise.tenancy.names import COPY_OF, KEPT

COPY = "copy"
# Bytes of what one tree inherits that the operator holds at a time, originals and copies.
MOST_INHERITED = 64 << 20
# Objects of one kind that are copied once: all of a tree waits while they are.
MOST_COPIED = 5000
# As open as they come: a copy has every field that its original has.
_KINDS: dict[str, tuple[type[Object], ...]] = {
    "RBAC": (
        dynamic(Role.KIND, "rules"),
        dynamic(RoleBinding.KIND, "roleRef", "subjects"),
    ),
    "NetworkPolicy": (dynamic(NetworkPolicy.KIND, "spec"),),
    "LimitRange": (dynamic(LimitRange.KIND, "spec"),),
    "Secret": (dynamic(Secret.KIND, "type", "data", "immutable"),),
    "ConfigMap": (dynamic(ConfigMap.KIND, "data", "binaryData", "immutable"),),
    "ServiceAccount": (
        dynamic(ServiceAccount.KIND, "imagePullSecrets", "automountServiceAccountToken"),
    ),
}
# Credentials of one account, and Helm's memory of what it installed where.
_NEVER_TYPES = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
_HELM = "helm.sh/release"
_NEVER = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}


def types_of(kinds: Iterable[str]) -> list[type[Object]]:
    return [each for kind in kinds for each in _KINDS.get(kind, ())]


def inheritable(original: Object) -> bool:
    meta = original.metadata
    if meta.deleting or (meta.name == KEPT and MANAGED in meta.labels):
        return False
    if (original.KIND.kind, meta.name) in _NEVER:
        return False
    if "false" in (meta.annotations.get(INHERIT), meta.labels.get(INHERIT)):
        return False
    kind = str(getattr(original, "type", None) or "")
    return kind not in _NEVER_TYPES and not kind.startswith(_HELM)


def copy_of(original: Object, namespace: str, *, kept: bool) -> Object:
    """`kept`: it follows its original, and nobody else may change it."""
    meta = original.metadata
    foreign = {name: value for name, value in meta.labels.items() if not name.startswith(GROUP)}
    notes = {
        name: value
        for name, value in meta.annotations.items()
        if not name.startswith((GROUP, "kubectl.kubernetes.io/"))
    }
    made = ObjectMeta(
        name=meta.name,
        namespace=namespace,
        labels={**foreign, **({MANAGED: COPY} if kept else {})},
        annotations={**notes, COPY_OF: meta.uid},
    )
    return msgspec.structs.replace(
        original,
        api_version=original.KIND.api_version,
        kind=original.KIND.kind,
        metadata=made,
    )


def content(obj: Object) -> dict[str, Any]:
    """What of an object is copied, beside its metadata."""
    fields: dict[str, Any] = msgspec.to_builtins(obj)
    return {
        name: value
        for name, value in fields.items()
        if name not in ("apiVersion", "kind", "metadata") and value is not None
    }


def same(copy: Object, wanted: Object) -> bool:
    return (
        content(copy) == content(wanted)
        and copy.metadata.labels == wanted.metadata.labels
        and copy.metadata.annotations.get(COPY_OF) == wanted.metadata.annotations[COPY_OF]
    )
