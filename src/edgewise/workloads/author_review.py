"""Asks the API server whether an author may create what an object describes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, KubeError
from edgewise.kube.kinds.authorization import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from edgewise.runtime.webhooks.admission import Denied, UserInfo
from edgewise.workloads.authors import Right, refusal

# All questions about one object together. The API server waits for the webhook longer than this.
PATIENCE = 3.0
# A right that somebody has is not asked for again for so long: a file with a hundred templates
# is a hundred times the same question. A right that is missing is: it may be granted just now.
REMEMBERED_SECONDS = 10.0
MOST_REMEMBERED = 1_000


class Rights(Protocol):
    async def has(self, user: UserInfo, namespace: str, right: Right) -> bool: ...


class AskedRights:
    """By SubjectAccessReview: the cluster's own authorizers answer, whichever they are."""

    def __init__(self, client: Client, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._granted: dict[bytes, float] = {}

    async def has(self, user: UserInfo, namespace: str, right: Right) -> bool:
        question = msgspec.json.encode([user, namespace, right], order="deterministic")
        now = self._monotonic()
        if self._granted.get(question, 0.0) > now:
            return True
        asked = SubjectAccessReview.named("")
        asked.spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups or [],
            extra=user.extra or {},
            resource_attributes=ResourceAttributes(
                namespace=namespace,
                verb=right.verb,
                group=right.group,
                resource=right.resource,
                name=right.name,
            ),
        )
        allowed = (await self._client.create(asked)).status.allowed
        if allowed:
            self._remember(question, now)
        return allowed

    def _remember(self, question: bytes, now: float) -> None:
        if len(self._granted) >= MOST_REMEMBERED:
            self._granted = {each: end for each, end in self._granted.items() if end > now}
        if len(self._granted) < MOST_REMEMBERED:
            self._granted[question] = now + REMEMBERED_SECONDS


async def review_author(
    user: UserInfo,
    namespace: str,
    wanted: Mapping[Right, str],
    at: str,
    rights: Rights,
    *,
    exempt: Right,
) -> Denied | None:
    """None: the author has all that is wanted, for the field beside it, or is exempt. What
    cannot be found out in time is refused."""
    if not wanted:
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(
                *(rights.has(user, namespace, right) for right in (*wanted, exempt))
            )
    except Forbidden:
        return Denied(
            f"{at}: nobody can say whether {user.username} may create this, because the operator "
            "may not ask: let it create subjectaccessreviews.authorization.k8s.io, or run it "
            "with --no-check-authors",
            code=503,
        )
    except (KubeError, TimeoutError) as error:
        why = str(error) or f"there was no answer within {PATIENCE:.0f} s"
        return Denied(
            f"{at}: it could not be found out whether {user.username} may create this "
            f"({why}); try again",
            code=503,
        )
    *raw, escalates = answers
    if escalates:
        return None
    for (right, where), has in zip(wanted.items(), raw, strict=True):
        if not has:
            return Denied(refusal(user.username, namespace, right, where))
    return None
