"""Names and labels of what tenancy makes."""

from __future__ import annotations

import base64
import hashlib

from edgewise.api.tenancy import GROUP, SubNamespace

FEDERATED = "Federated"
_HASH_CHARACTERS = 10

# What the operator keeps in every namespace of a tenant, each under this one name.
KEPT = "tenancy"
# Which object of the parent a copy follows, as `<uid>`: a copy without it is none of ours.
COPY_OF = f"{GROUP}/copy-of"
# On a ResourceQuota: what each child holds.
LEDGER = f"{GROUP}/ledger"
# In a quota: how many SubNamespaces a namespace may have.
SUBNAMESPACES = f"count/{SubNamespace.KIND.plural}.{GROUP}"
# On a namespace: the inheritance with sync Once that was carried out.
INHERITED = f"{GROUP}/inherited"
# On a RoleBinding of a disabled tenant: the subjects that it has when the tenant is enabled.
SUBJECTS = f"{GROUP}/subjects"
# On a namespace of a disabled tenant: all of its bindings were emptied.
SUSPENDED = f"{GROUP}/suspended"
# As its value: they were, but the label that keeps others from being made was not there yet.
EARLY = "early"


def child_name(parent: str, name: str, scope: str = "Local", cluster_uid: str = "") -> str:
    """The namespace that a SubNamespace makes: the same one always, and no other one's.

    The parts are hashed with their lengths, so that `a-b` in `c` and `a` in `b-c` differ.
    """
    federated = scope == FEDERATED
    parts = [parent, name, *([cluster_uid] if federated else [])]
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()
    short = f"{name}-{digest[:_HASH_CHARACTERS]}"
    return f"{cluster_uid}-{short}" if federated else short


def child_of(subnamespace: SubNamespace, cluster_uid: str) -> str:
    meta = subnamespace.metadata
    return child_name(meta.namespace, meta.name, subnamespace.spec.scope, cluster_uid)


def prefixed_labels(subnamespace: SubNamespace) -> dict[str, str]:
    """The labels that its author chose: under a prefix, none of them can be mistaken for ours."""
    prefix = f"{subnamespace.metadata.name}.tenant.edgewise.dev/"
    return {f"{prefix}{name}": value for name, value in subnamespace.spec.labels.items()}
