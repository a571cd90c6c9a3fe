"""Sessions of many clusters, by a server's API."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from edgewise.api.sessions import ClientPhase
from edgewise.cli.session.source import SessionError, Shown
from edgewise.cli.session.views import ClientView, SessionView, TemplateView
from edgewise.client import ApiError, Edgewise, EdgewiseError, NotFound
from edgewise.client.sessions import views as answers

TOKEN = "EDGEWISE_TOKEN"  # noqa: S105 - the name of a variable
# A list of sessions is not watched by everybody's token; looking again is good enough.
LOOK_SECONDS = 1.0

PHASES = {
    "queued": "Queued",
    "joining": ClientPhase.STARTING,
    "ready": ClientPhase.READY,
    "suspect": "Suspect",
    "disconnected": ClientPhase.DISCONNECTED,
}


@contextlib.asynccontextmanager
async def server_sessions(url: str, namespace: str | None) -> AsyncIterator[ServerSessions]:
    if namespace:
        raise SessionError("a server has no namespaces: leave out --namespace")
    token = os.environ.get(TOKEN, "")
    if not token:
        raise SessionError(f"the server needs to know who you are: put an API token into {TOKEN}")
    async with Edgewise(url, token) as edgewise:
        yield ServerSessions(edgewise)


class ServerSessions:
    def __init__(self, edgewise: Edgewise) -> None:
        self._edgewise = edgewise

    async def all(self, *, everywhere: bool = False) -> list[SessionView]:
        _refuse(everywhere)
        return [_view(session) for session in await self._edgewise.sessions()]

    async def one(self, name: str) -> SessionView:
        try:
            return _view_details(await self._edgewise.session(name))
        except NotFound as error:
            raise SessionError(str(error)) from error

    async def templates(self, *, everywhere: bool = False) -> list[TemplateView]:
        _refuse(everywhere)
        counts: dict[str, int] = {}
        for session in await self._edgewise.sessions():
            counts[session.template] = counts.get(session.template, 0) + 1
        return [
            TemplateView(
                name=template.name,
                namespace="",
                pod_templates=template.pods,
                sessions=counts.get(template.name, 0),
                warm=None,
                created=None,
                deleting=False,
            )
            for template in await self._edgewise.templates()
        ]

    async def create(self, name: str, spec: dict[str, Any]) -> bool:
        template = spec.get("templateRef", {}).get("name")
        if not template or spec.keys() - {"templateRef"}:
            raise SessionError("a server makes sessions from templates only: use --template")
        known = {session.name for session in await self._edgewise.sessions()}
        await self._edgewise.create_session(template, name)
        return name not in known

    async def join(self, name: str, client: str) -> bool:
        before = await self._client(name, client)
        wish: dict[str, Any] = {"lease_seconds": 0}  # a shell sends no heartbeats
        if before is None or before.location is None:
            wish["latencies"] = await self._edgewise.latencies()
        await self._edgewise.place(name, client, **wish)
        return before is None

    async def leave(self, name: str, client: str) -> bool:
        before = await self._client(name, client)
        await self._edgewise.leave(name, client)
        return before is not None

    async def disconnect(self, name: str, client: str) -> None:
        await self._edgewise.disconnect(name, client)

    async def delete(self, name: str) -> None:
        await self._edgewise.delete_session(name)

    async def until_gone(self, session: SessionView, within: float) -> None:
        last: answers.SessionDetails | None = None
        try:
            async with asyncio.timeout(within):
                while True:
                    last = await self._edgewise.session(session.name)
                    await asyncio.sleep(LOOK_SECONDS / 4)
        except NotFound:
            return
        except TimeoutError:
            parts = last.locations if last is not None else {}
            left = [f"{place} ({part.reason or part.state})" for place, part in parts.items()]
            raise SessionError(
                f"session {session.name} is not gone after {within:.0f} s; waiting for "
                f"{', '.join(left) or 'the server'}"
            ) from None

    async def follow(
        self, name: str | None = None, *, everywhere: bool = False
    ) -> AsyncGenerator[Shown, None]:
        _refuse(everywhere)
        before: Shown | None = None
        while True:
            try:
                now = await self._shown(name)
            except ApiError:
                raise
            except EdgewiseError:
                now = before or {}  # the server is away; what was shown last stays
            if now != before:
                yield now
            before = now
            await self._next_change(name, now)

    async def _shown(self, name: str | None) -> Shown:
        if name is None:
            return {("", view.name): view for view in await self.all()}
        try:
            return {("", name): _view_details(await self._edgewise.session(name))}
        except NotFound:
            return {}

    async def _next_change(self, name: str | None, now: Shown) -> None:
        """Return when something may have changed: soon, and sooner for one that waits."""
        waits = name is not None and any(not view.ready for view in now.values())
        await asyncio.sleep(LOOK_SECONDS / 10 if waits else LOOK_SECONDS)

    async def tokens(self, client: ClientView) -> dict[str, str]:
        return client.tokens

    async def without_operator(self) -> str:
        return ""  # each location has its own; the server says which of them do not answer

    async def why_not_ready(self, session: SessionView, client: str) -> str:
        has = session.clients_by_id.get(client)
        return (has.message if has is not None else "") or "its pods do not answer yet"

    async def _client(self, session: str, client: str) -> answers.ClientView | None:
        try:
            return await self._edgewise.client(session, client)
        except NotFound:
            return None


def _refuse(everywhere: bool) -> None:
    if everywhere:
        raise SessionError("a server has no namespaces: leave out --all-namespaces")


def _view(session: answers.Session) -> SessionView:
    return SessionView(
        name=session.name,
        namespace="",
        uid="",
        template=session.template,
        created=session.created,
        deleting=session.state == "deleting",
        seen=True,
        clients=session.clients,
        ready=session.ready,
        disconnected=session.disconnected,
        pods=None,
        recoveries=None,
    )


def _view_details(session: answers.SessionDetails) -> SessionView:
    view = _view(session)
    view.clients_by_id = {
        id: ClientView(
            client=id,
            connected=client.state != "disconnected",
            phase=_phase(client),
            ready=client.ready,
            location=client.location,
            until=client.until,
            endpoints=client.endpoints,
            needs_token=bool(client.tokens),
            tokens=client.tokens,
            message=client.message or client.why,
        )
        for id, client in sorted(session.clients_by_id.items())
    }
    return view


def _phase(client: answers.ClientView) -> str:
    phase = PHASES.get(client.state, client.state)
    return phase if client.position is None else f"{phase} as number {client.position}"
