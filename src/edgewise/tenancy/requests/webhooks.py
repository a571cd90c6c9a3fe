"""What only a program can say of a request: who made it, whether it is the only one, and whether
the approver has what they give. Who they are is checked once more by policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from edgewise.api.tenancy import GROUP
from edgewise.api.tenancy_requests import REQUESTS, Request
from edgewise.kube.client import Client
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import (
    AdmissionRequest,
    Allowed,
    Denied,
    Mutated,
    Verdict,
)
from edgewise.runtime.webhooks.serving import Webhook
from edgewise.tenancy.requests.granting import asking, why_not

# A request that was let in, and that the caches may not have yet, counts for so long.
_FRESH_SECONDS = 10.0
_TIMEOUT_SECONDS = 10


def stamp(asked: AdmissionRequest[Any]) -> Verdict:
    """Whoever asks or decides is who the API server says they are."""
    document = asked.document
    spec = document.setdefault("spec", {})
    if asked.operation == "CREATE":
        spec["requester"] = asked.user.username
        return Mutated(document)
    decision = spec.get("decision")
    if isinstance(decision, dict) and newly_decided(asked):
        decision["by"] = asked.user.username
        return Mutated(document)
    return Allowed()


def newly_decided(asked: AdmissionRequest[Any]) -> bool:
    before: Request | None = asked.old_object
    after: Request | None = asked.object
    return (
        before is not None
        and after is not None
        and before.spec.decision is None
        and after.spec.decision is not None
    )


class Reviewing:
    """One undecided request a person, and no approval of more than the approver has."""

    def __init__(
        self,
        client: Client,
        caches: SharedCaches,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._caches = [caches.of(kind) for kind in REQUESTS]
        self._monotonic = monotonic
        self._let_in: dict[str, float] = {}

    async def review(self, asked: AdmissionRequest[Any]) -> Verdict:
        if asked.operation == "CREATE":
            return self._alone(asked)
        request: Request | None = asked.object
        if request is None or not newly_decided(asked):
            return Allowed()
        if request.spec.decision is None or not request.spec.decision.approved:
            return Allowed()
        sentence = await why_not(self._client, request, asking(self._client, asked.user))
        return Denied(f"spec.decision: {sentence}") if sentence else Allowed()

    def _alone(self, asked: AdmissionRequest[Any]) -> Verdict:
        now, who = self._monotonic(), asked.user.username
        self._let_in = {
            name: since for name, since in self._let_in.items() if now - since < _FRESH_SECONDS
        }
        if who in self._let_in or any(self._undecided_of(who)):
            return Denied(
                "you have a request that is not decided yet: wait for that, or delete it, before "
                "you make another"
            )
        if not asked.dry_run:
            self._let_in[who] = now
        return Allowed()

    def _undecided_of(self, who: str) -> Iterable[Request]:
        return (each for cache in self._caches for each in cache.by(by_undecided_requester, who))


def by_undecided_requester(request: Request) -> str | None:
    return request.spec.requester if request.spec.decision is None else None


def webhooks(client: Client, caches: SharedCaches) -> tuple[Webhook[Any], ...]:
    reviewing = Reviewing(client, caches)
    made: list[Webhook[Any]] = []
    for kind in REQUESTS:
        plural = kind.KIND.plural
        made += [
            Webhook(name=f"stamp.{plural}.{GROUP}", kind=kind, review=stamp, mutates=True),
            Webhook(
                name=f"review.{plural}.{GROUP}",
                kind=kind,
                review=reviewing.review,
                timeout_seconds=_TIMEOUT_SECONDS,
            ),
        ]
    return tuple(made)
