"""Case 3: Edgewise. A join is one patch; the address is in the status, and stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from edgewise.api.sessions import Session
from edgewise.bench.evaluation.cases.case import Case, Stage
from edgewise.bench.evaluation.cases.retrying import RETRY_SECONDS, pauses
from edgewise.bench.evaluation.trace import Trace
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.kube.errors import NotFound
from edgewise.kube.objects import Key
from edgewise.runtime.awaiting import Waiting

TEMPLATE = "servers"


class EdgewiseCase(Case):
    """`reuse_seconds` keeps the pod of a client who left for the next; `warm` pods wait for one."""

    def __init__(
        self,
        stage: Stage,
        sessions: Waiting[Session],
        *,
        reuse_seconds: int = 0,
        across: bool = False,
        warm: int = 0,
    ) -> None:
        self._stage = stage
        self._sessions = sessions
        self._reuse_seconds = reuse_seconds
        self._across = across
        self._warm = warm

    async def prepare(self, trace: Trace) -> None:
        await self._stage.client.apply(self._template())

    def _template(self) -> dict[str, Any]:
        pods = {
            "name": "server",
            "maxClients": 1,
            "warmPods": self._warm,
            "ports": [{"name": "http", "port": self._stage.workload.port}],
            "template": {"spec": self._stage.workload.pod_spec()},
        }
        spec: dict[str, Any] = {"podTemplates": [pods], "timeoutSeconds": 0}
        if self._reuse_seconds:
            spec["reuse"] = "Template" if self._across else "Session"
            spec["reutilizeTimeoutSeconds"] = self._reuse_seconds
        return {
            "apiVersion": "sessions.edgewise.dev/v1alpha1",
            "kind": "SessionTemplate",
            "metadata": {"name": TEMPLATE, "namespace": NAMESPACE},
            "spec": spec,
        }

    async def create_session(self, session: str) -> None:
        await self._stage.client.apply(
            {
                "apiVersion": "sessions.edgewise.dev/v1alpha1",
                "kind": "Session",
                "metadata": {"name": session, "namespace": NAMESPACE},
                "spec": {"templateRef": {"name": TEMPLATE}},
            }
        )

    async def delete_session(self, session: str) -> None:
        try:
            await self._stage.client.delete(Session, session, NAMESPACE)
        except NotFound:
            return

    async def join(self, session: str, client: str) -> None:
        await self._set(session, client, {"connected": True})

    async def urls(self, session: str, client: str) -> AsyncIterator[str]:
        def ready(seen: Session | None) -> bool:
            has = seen.status.clients.get(client) if seen is not None else None
            return has is not None and has.ready and "http" in has.endpoints.get("server", {})

        async for _ in pauses(RETRY_SECONDS, self._stage.within):
            seen = await self._sessions.until(
                Key(NAMESPACE, session),
                ready,
                f"client {client} of session {session} ready",
                self._stage.within,
            )
            if seen is not None:
                yield seen.status.clients[client].endpoints["server"]["http"]

    async def leave(self, session: str, client: str) -> None:
        await self._set(session, client, None)

    async def _set(self, session: str, client: str, value: dict[str, Any] | None) -> None:
        try:
            await self._stage.client.patch(
                Session, session, NAMESPACE, body={"spec": {"clients": {client: value}}}
            )
        except NotFound:
            if value is not None:
                raise
