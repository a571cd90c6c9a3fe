"""Pods are tried out before what describes them is stored: the API server checks them as it would
when they are made, and makes none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from edgewise.kube.client import Client
from edgewise.kube.documents import encode
from edgewise.kube.errors import ApiError, BadRequest, Forbidden, Invalid, KubeError
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.webhooks.admission import Allowed, Denied, Verdict

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


async def rehearse(pods: Iterable[tuple[Pod, str]], stage: Rehearsal) -> Verdict:
    """Each pod comes with the field that describes it.

    Refused is what can never be made. What is forbidden here and now (by a quota, by Pod
    Security, for lack of a service account) may be allowed by the time it is made: a warning."""
    answers = await asyncio.gather(*(_try(pod, at, stage) for pod, at in pods))
    for answer in answers:
        if isinstance(answer, Denied):
            return answer
    return Allowed(warnings=tuple(answer for answer in answers if isinstance(answer, str)))


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
        return None  # whoever waits for the real pod is told what comes of it
    return None


def _said(error: ApiError, pod: Pod) -> str:
    """The API server's words, without the name that only this pod had."""
    name = pod.metadata.name
    said = str(error)
    for head in (f'Pod "{name}" is invalid: ', f'pods "{name}" is forbidden: '):
        said = said.removeprefix(head)
    return said.replace(name, "it")
