"""The pods that a workload would have, to be tried out before it is stored."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import msgspec

from edgewise.api.sessions import Workload
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import OwnerReference
from edgewise.sessions.pods import build_pod, made_from


def pods_of(workload: Workload, namespace: str, at: str) -> Iterable[tuple[Pod, str]]:
    """Each with the field that describes it."""
    nobody = OwnerReference(api_version="", kind="", name="", uid="")
    for number, pod_template in enumerate(workload.pod_templates):
        pod = build_pod(
            made_from(pod_template, workload),
            f"edgewise-{pod_template.name}-{secrets.token_hex(4)}",
            namespace,
            owner=nobody,
            labels={},
            ordinal=0,
        )
        metadata = msgspec.structs.replace(pod.metadata, owner_references=[])
        yield (
            msgspec.structs.replace(pod, metadata=metadata),
            f"{at}.podTemplates[{number}].template",
        )
