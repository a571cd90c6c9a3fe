"""The Gateway API as far as the operator sees it: its kinds, and somebody who accepts routes."""

from __future__ import annotations

from typing import Any

from edgewise.kube.client import Client
from edgewise.sessions.child_kinds import Child, ListenerSet
from tests.e2e.sessions.workloads import NAMESPACE


def definition(kind: type[Child]) -> dict[str, Any]:
    """A CRD that takes anything: what the real ones refuse is not what is tested here."""
    what = kind.KIND
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{what.plural}.{what.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": what.group,
            "scope": "Namespaced",
            "names": {"kind": what.kind, "plural": what.plural, "singular": what.kind.lower()},
            "versions": [
                {
                    "name": what.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


async def accept(client: Client, kind: type[Child], name: str) -> None:
    """What the controller of the Gateway would say."""
    accepted = [{"type": "Accepted", "status": "True"}]
    status: dict[str, Any] = {"parents": [{"conditions": accepted}]}
    if kind is ListenerSet:
        status = {"conditions": accepted}
    await client.patch(kind, name, NAMESPACE, body={"status": status}, subresource="status")
