"""What the reviewers of sessions know beyond the object itself, in a running operator."""

from __future__ import annotations

from typing import Any

from edgewise.api.sessions import SessionTemplate
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.serving import Webhook
from edgewise.sessions.admission.reviews import webhooks
from edgewise.sessions.indexes.indexes import by_template
from edgewise.sessions.raw_session import RawSession
from edgewise.workloads.author_review import AskedRights
from edgewise.workloads.rehearsal import DryRun


class NotKnownYet(ReadableError):
    """The caches have not seen what the answer depends on."""


def webhooks_of_sessions(
    client: Client, caches: SharedCaches, *, check_authors: bool = True
) -> list[Webhook[Any]]:
    return webhooks(
        KnownByCache(client, caches),
        rights=AskedRights(client) if check_authors else None,
        stage=DryRun(client),
    )


class KnownByCache:
    """Answers the reviewers from the caches; a template that was made just now is asked for."""

    def __init__(self, client: Client, caches: SharedCaches) -> None:
        self._client = client
        self._templates = caches.of(SessionTemplate)
        self._sessions = caches.of(RawSession)

    async def template(self, namespace: str, name: str) -> SessionTemplate | None:
        found = self._templates.find(name, namespace)
        if found is not None:
            return found
        try:
            return await self._client.get(SessionTemplate, name, namespace)
        except NotFound:
            return None

    def sessions_of(self, namespace: str, template: str) -> int:
        if not self._sessions.synced:
            # Fail closed: whoever has not seen the sessions cannot say that there is room.
            raise NotKnownYet("the sessions are not known yet; try again in a moment")
        return len(self._sessions.by(by_template, f"{namespace}/{template}"))
