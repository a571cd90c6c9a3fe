"""Sessions of one cluster, by its API server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgewise.api.sessions import Session, SessionSpec, SessionTemplate
from edgewise.cli.session.source import SessionError, Shown
from edgewise.cli.session.views import (
    ClientView,
    SessionView,
    TemplateView,
    seconds_until,
    view_session,
    view_template,
)
from edgewise.kube.client import Client, Patch
from edgewise.kube.config import load_access
from edgewise.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound, ServerError
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod, Secret
from edgewise.kube.objects import Key, Object
from edgewise.kube.paths import collection_path
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.workloads.pod_trouble import standing_of

if TYPE_CHECKING:
    from edgewise.runtime.caching.shared_caches import SharedCaches

NextChange = Callable[[], Awaitable[None]]

MANAGER = "edgewise-session"
# The most that is named of those that exist, when one that does not was asked for.
MOST_NAMES = 12
OUR_WEBHOOK = re.compile(r"failed calling webhook \"[^\"]*edgewise\.dev\"")
UNANSWERED = "the operator's webhook does not answer: see its log, and try again"
START_ONE = "install the chart, or start one with `edgewise local platform` or `edgewise operator`"


@contextlib.asynccontextmanager
async def cluster_sessions(
    kubeconfig: Path | None, context: str | None, namespace: str | None
) -> AsyncIterator[ClusterSessions]:
    access = load_access(kubeconfig, context)
    async with Client(access, user_agent="edgewise-session") as client:
        sessions = ClusterSessions(client, namespace or access.namespace)
        try:
            yield sessions
        except ApiError as error:
            if isinstance(error, ServerError) and OUR_WEBHOOK.search(error.message):
                missing = await sessions.without_operator()
                raise SessionError(
                    f"nobody is there to check what you ask for; {missing or UNANSWERED}"
                ) from error
            raise explained(error, access.server) from error


def explained(error: ApiError, server: str) -> Exception:
    """The API server's own words are about its paths; a person asked for something else."""
    kind = error.details.get("kind")
    if isinstance(error, NotFound) and not error.details.get("name"):
        return SessionError(
            f"the cluster at {server} does not know sessions: install them with "
            "`edgewise crds install` (`edgewise local platform` and the chart do that, too)"
        )
    if isinstance(error, NotFound) and kind == "namespaces":
        name = error.details["name"]
        return SessionError(
            f"there is no namespace {name}: make it with `kubectl create namespace {name}`, or "
            "choose another with --namespace"
        )
    return error


class ClusterSessions:
    """See `Sessions`; made by `cluster_sessions`."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    # Reading ------------------------------------------------------------------------

    async def all(self, *, everywhere: bool = False) -> list[SessionView]:
        found = await self._client.list(Session, None if everywhere else self.namespace)
        return [view_session(each) for each in found.items]

    async def one(self, name: str) -> SessionView:
        return view_session(await self._get(name))

    async def templates(self, *, everywhere: bool = False) -> list[TemplateView]:
        found = await self._client.list(SessionTemplate, None if everywhere else self.namespace)
        return [view_template(each) for each in found.items]

    async def _get(self, name: str) -> Session:
        try:
            return await self._client.get(Session, name, self.namespace)
        except NotFound as error:
            raise await self._unknown(error, Session, name) from error

    async def _unknown(self, error: NotFound, kind: type[Object], name: str) -> Exception:
        """Names what there is, so that a slip of the keyboard is seen at once."""
        if error.details.get("name") != name:
            return error
        what = "template" if kind is SessionTemplate else "session"
        there = [
            each.metadata.name for each in (await self._client.list(kind, self.namespace)).items
        ]
        shown = ", ".join(there[:MOST_NAMES])
        more = f" and {len(there) - MOST_NAMES} more" if len(there) > MOST_NAMES else ""
        has = f"it has {shown}{more}" if there else f"it has no {what}s at all"
        return SessionError(f"there is no {what} {name} in namespace {self.namespace}: {has}")

    # Changing -----------------------------------------------------------------------

    async def create(self, name: str, spec: dict[str, Any]) -> bool:
        if template := spec.get("templateRef", {}).get("name"):
            try:
                await self._client.get(SessionTemplate, template, self.namespace)
            except NotFound as error:
                raise await self._unknown(error, SessionTemplate, template) from error
        try:
            wanted = msgspec.convert(spec, SessionSpec)
        except msgspec.ValidationError as error:
            raise SessionError(f"the session cannot be read: {error}") from error
        body = {
            "apiVersion": Session.KIND.api_version,
            "kind": Session.KIND.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        try:
            await self._client.request(
                "POST",
                collection_path(Session.KIND, self.namespace),
                params={"fieldManager": MANAGER},
                body=msgspec.json.encode(body),
            )
        except AlreadyExists:
            there = await self._get(name)
            if without_clients(there.spec) != without_clients(wanted):
                raise SessionError(
                    f"there is a session {name} already, which is made differently: delete it "
                    f"with `edgewise session delete {name}`, or choose another name"
                ) from None
            return False
        return True

    async def join(self, name: str, client: str) -> bool:
        before = await self._get(name)
        if before.metadata.deleting:
            raise SessionError(f"session {name} is being deleted: nobody can join it any more")
        await self._say(name, client, {"connected": True})
        entry = before.spec.clients.get(client)
        return not (isinstance(entry, dict) and entry.get("connected", True) is True)

    async def leave(self, name: str, client: str) -> bool:
        before = await self._get(name)
        if client not in before.spec.clients:
            return False
        await self._say(name, client, None)
        return True

    async def _say(self, name: str, client: str, presence: dict[str, Any] | None) -> None:
        try:
            await self._client.patch(
                Session,
                name,
                self.namespace,
                body={"spec": {"clients": {client: presence}}},
                field_manager=MANAGER,
            )
        except NotFound as error:
            raise await self._unknown(error, Session, name) from error

    async def disconnect(self, name: str, client: str) -> None:
        there = (await self._get(name)).spec.clients
        # `add` needs the client to be there at the very moment: it cannot bring one back.
        path = f"/spec/clients/{client.replace('~', '~0').replace('/', '~1')}/connected"
        try:
            if client in there:
                await self._client.patch(
                    Session,
                    name,
                    self.namespace,
                    type=Patch.JSON,
                    body=[{"op": "add", "path": path, "value": False}],
                    field_manager=MANAGER,
                )
                return
        except Invalid:
            there = (await self._get(name)).spec.clients
            if client in there:
                raise
        has = f"its clients are {', '.join(sorted(there)[:MOST_NAMES])}" if there else "it is empty"
        raise SessionError(f"{client} is not in session {name}: {has}")

    async def delete(self, name: str) -> None:
        try:
            await self._client.delete(Session, name, self.namespace)
        except NotFound as error:
            raise await self._unknown(error, Session, name) from error

    async def until_gone(self, session: SessionView, within: float) -> None:
        from edgewise.runtime.caching.shared_caches import SharedCaches  # noqa: PLC0415 - slow to import
        from edgewise.sessions.names import SESSION_UID, TEMPLATE_UID  # noqa: PLC0415

        # A pod that all sessions of a template share stays with the template.
        label = f"{SESSION_UID}={session.uid},!{TEMPLATE_UID}"
        caches = SharedCaches(self._client)
        sessions = caches.of(Session, Selection(session.namespace, "", named(session.name)))
        pods = caches.of(Pod, Selection(session.namespace, label))
        try:
            async with asyncio.timeout(within), kept_up(caches, sessions, pods) as changed:
                while True:
                    there = sessions.get(Key(session.namespace, session.name))
                    gone = there is None or there.metadata.uid != session.uid
                    if gone and not len(pods):
                        return
                    await changed()
        except TimeoutError:
            left = ", ".join(pod.metadata.name for pod in pods) or "the session itself"
            raise SessionError(
                f"session {session.name} is deleted, but after {within:.0f} s this is left of it: "
                f"{'; '.join(filter(None, (left, await self.without_operator())))}"
            ) from None

    # Following ----------------------------------------------------------------------

    async def follow(
        self, name: str | None = None, *, everywhere: bool = False
    ) -> AsyncGenerator[Shown, None]:
        from edgewise.runtime.caching.shared_caches import SharedCaches  # noqa: PLC0415 - slow to import

        # What is not allowed or not there is said now; later troubles are waited out.
        if name is None:
            await self._client.list(Session, None if everywhere else self.namespace, limit=1)
        else:
            await self._get(name)
        caches = SharedCaches(self._client)
        cache = caches.of(
            Session,
            Selection(None if everywhere else self.namespace, "", named(name) if name else ""),
        )
        async with kept_up(caches, cache) as changed:
            while True:
                yield {
                    (each.metadata.namespace, each.metadata.name): view_session(each)
                    for each in cache
                }
                await changed()

    # Explaining ---------------------------------------------------------------------

    async def tokens(self, client: ClientView) -> dict[str, str]:
        """The gateway keeps nothing but hashes, so they are derived anew from the key."""
        from edgewise.exposure.endpoints import seat_in  # noqa: PLC0415
        from edgewise.exposure.seat_key import SEAT_KEY, SEAT_KEY_SECRET  # noqa: PLC0415
        from edgewise.exposure.seats import seat_token  # noqa: PLC0415
        from edgewise.operator import NAMESPACE  # noqa: PLC0415

        if not client.needs_token:
            return {}
        try:
            secret = await self._client.get(Secret, SEAT_KEY_SECRET, NAMESPACE)
        except (Forbidden, NotFound):
            return {}
        key = secret.data.get(SEAT_KEY, b"")
        found = {}
        for pod_template, ports in client.endpoints.items():
            seats = [seat_in(url) for url in ports.values() if url.startswith("http")]
            if seats:
                found[pod_template] = seat_token(key, seats[0])
        return found

    async def why_not_ready(self, session: SessionView, client: str) -> str:
        if not session.seen and (missing := await self.without_operator()):
            return missing
        has = session.clients_by_id.get(client)
        # Its own reason first: the session's trouble may be that of another client.
        if has is not None and has.message:
            return has.message
        if session.trouble:
            return session.trouble
        for pod in has.pods.values() if has is not None else ():
            with contextlib.suppress(NotFound, Forbidden):
                found = await self._client.get(Pod, pod, session.namespace)
                if not found.ready:
                    return f"pod {pod}: {standing_of(found).text}"
        return f"it is {has.phase if has is not None else 'not there'}"

    async def without_operator(self) -> str:
        """Empty while an operator is at work, or where nobody may know."""
        from edgewise.operator import LEASE, NAMESPACE  # noqa: PLC0415 - slow to import

        try:
            lease = await self._client.get(Lease, LEASE, NAMESPACE)
        except NotFound:
            return f"no operator is running: {START_ONE}"
        except Forbidden:
            return ""
        ago = -(seconds_until(lease.spec.renew_time, datetime.fromtimestamp(time.time(), UTC)) or 0)
        if lease.spec.holder_identity and ago <= (lease.spec.lease_duration_seconds or 15):
            return ""
        return f"no operator is running: the last one was there {ago:.0f} s ago; {START_ONE}"


def without_clients(spec: SessionSpec) -> SessionSpec:
    return msgspec.structs.replace(spec, clients={})


def named(name: str) -> str:
    return f"metadata.name={name}"


@contextlib.asynccontextmanager
async def kept_up(caches: SharedCaches, *watched: Cache[Any]) -> AsyncIterator[NextChange]:
    """Keeps the caches up to date; the function it gives returns at the next change."""
    changed = asyncio.Event()
    for cache in watched:
        cache.subscribe(lambda *_: changed.set())
    task = asyncio.create_task(caches.run())

    async def next_change() -> None:
        await changed.wait()
        changed.clear()

    try:
        await caches.wait_synced()
        changed.clear()
        yield next_change
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
