"""Secrets that Edgewise reads: how they are told apart from all others."""

from __future__ import annotations

from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import ObjectMeta

# On Secrets that the server reads: api-token, signing-keys, kubeconfig or turn.
SECRET_LABEL = "edgewise.dev/secret"  # noqa: S105 - the name of it


def labelled_secret(name: str, namespace: str, label: str, data: dict[str, bytes]) -> Secret:
    secret = Secret.named(name, namespace, data=data)
    secret.metadata = ObjectMeta(name=name, namespace=namespace, labels={SECRET_LABEL: label})
    return secret
