"""Pods are tried out before their template is stored: the API server checks them as it would at
a join, and makes none."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Protocol

import msgspec

from edgewise.api.sessions import Workload
from edgewise.kube.client import Client
from edgewise.kube.documents import encode
from edgewise.kube.errors import ApiError, BadRequest, Forbidden, Invalid, KubeError
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import OwnerReference
from edgewise.runtime.webhooks.admission import Allowed, Denied, Verdict
from edgewise.sessions.pods import build_pod, made_from

PATIENCE = 3.0
# What a webhook of somebody else is asked about, and cannot answer without a real pod.
_NO_DRY_RUN = "does not support dry run"


class Rehearsal(Protocol):
    async def try_out(self, pod: Pod) -> None:
        """Raises what the API server says against the pod."""


class DryRun:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def try_out(self, pod: Pod) -> None:
        # Strict: a field that does not exist is otherwise dropped without a word.
        await self._client.request(
            "POST",
            Pod.KIND.path(pod.metadata.namespace),
            params={"dryRun": "All", "fieldValidation": "Strict"},
            body=encode(pod),
        )


async def rehearse(workload: Workload, namespace: str, at: str, stage: Rehearsal) -> Verdict:
    """Refused is what can never be made. What is forbidden here and now (by a quota, by Pod
    Security, for lack of a service account) may be allowed by the time of a join: a warning."""
    tries = [_try(pod, where, stage) for pod, where in _pods(workload, namespace, at)]
    answers = await asyncio.gather(*tries)
    for answer in answers:
        if isinstance(answer, Denied):
            return answer
    return Allowed(warnings=tuple(answer for answer in answers if isinstance(answer, str)))


def _pods(workload: Workload, namespace: str, at: str) -> Iterable[tuple[Pod, str]]:
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


async def _try(pod: Pod, at: str, stage: Rehearsal) -> Denied | str | None:
    try:
        async with asyncio.timeout(PATIENCE):
            await stage.try_out(pod)
    except (Invalid, BadRequest) as error:
        if _NO_DRY_RUN in str(error):
            return None
        return Denied(f"{at}: {_said(error, pod)}", code=422)
    except Forbidden as error:
        return f"{at}: as things are, no such pod would be made: {_said(error, pod)}"
    except (KubeError, TimeoutError):
        return None  # it is tried again when somebody joins, who is told what comes of it
    return None


def _said(error: ApiError, pod: Pod) -> str:
    """The API server's words, without the name that only this pod had."""
    name = pod.metadata.name
    said = str(error)
    for head in (f'Pod "{name}" is invalid: ', f'pods "{name}" is forbidden: '):
        said = said.removeprefix(head)
    return said.replace(name, "it")
