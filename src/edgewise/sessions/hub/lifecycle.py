"""Sessions over all clusters: found, made and taken down.

A session exists as soon as the hub has it. Its parts in the members are made right away
where that is possible, and by the repair where it is not.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from base64 import b32encode
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edgewise.api.global_sessions import FINALIZER, Failover, GlobalSession, GlobalSessionSpec
from edgewise.api.owners import owner_in
from edgewise.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from edgewise.kube.objects import ObjectMeta
from edgewise.kube.selectors import is_name
from edgewise.runtime.errors import Refused, ServiceError, Unacceptable
from edgewise.sessions.hub.bindings import unanswered
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.lookups import Lookups
from edgewise.sessions.hub.members import Member

# The caller waits this long for members; the repair has all the time in the world.
MEMBERS_SECONDS = 3.0

_log = logging.getLogger(__name__)

# It becomes a label of pods in the members.
SESSION_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SESSION_NAME_RULE = (
    "must have 1 to 63 lower-case letters, digits or - and begin and end with a letter or digit"
)
SessionName = Annotated[
    str, Meta(min_length=1, max_length=63, pattern=rf"^{SESSION_NAME}(?![\s\S])")
]
ShortName = Annotated[str, Meta(min_length=1, max_length=63)]


class NewSession(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a session shall be."""

    template: ShortName
    """The SessionTemplate to follow."""
    name: SessionName | None = None
    """Without a name it gets one."""
    locations: Annotated[list[ShortName], Meta(max_length=64)] = []
    """The only locations it may use; empty: all."""
    regions: Annotated[list[ShortName], Meta(max_length=64)] = []
    """The only regions it may use; empty: all."""
    failover: Failover = Failover.MOVE
    """What becomes of its clients when their cluster is lost."""


Do = Callable[[Member, GlobalSession], Awaitable[None]]


class Lifecycle:
    def __init__(self, hub_view: HubView) -> None:
        self._hub_view = hub_view
        self._hub = hub_view.hub
        self._unfinished: set[asyncio.Task[None]] = set()
        self._lookups: Lookups[str, GlobalSession] = Lookups(self._ask_hub)

    async def find(self, name: str) -> GlobalSession | None:
        """A session that exists; one that another replica has just made is found too."""
        known = self._hub.session(name)
        if known is not None or not self._hub.link.ready:
            return known
        return await self._lookups.find(name)

    async def _ask_hub(self, name: str) -> GlobalSession | None:
        try:
            return await self._hub.client.get(GlobalSession, name, self._hub.namespace)
        except NotFound:
            return None
        except KubeError as error:
            raise HubUnreachable from error

    async def create(
        self, new: NewSession, *, owner: str, repetition_key: str = ""
    ) -> tuple[GlobalSession, bool]:
        """The session, and whether this call made it. Repeating the call is safe."""
        if not self._hub.link.ready:
            raise HubUnreachable
        await self._check(new)
        name = new.name or _name(owner, repetition_key)
        wanted = GlobalSession(
            api_version=GlobalSession.KIND.api_version,
            kind=GlobalSession.KIND.kind,
            metadata=ObjectMeta(name=name, namespace=self._hub.namespace, finalizers=[FINALIZER]),
            spec=GlobalSessionSpec(
                template=new.template,
                owner=owner,
                locations=new.locations,
                regions=new.regions,
                failover=new.failover,
            ),
        )
        try:
            session, made = await self._hub.client.create(wanted), True
        except AlreadyExists:
            session, made = await self._same(wanted), False
        except Invalid as error:
            raise Unacceptable(str(error)) from error
        except KubeError as error:
            raise HubUnreachable from error
        self._lookups.forget(name)
        await self._everywhere(session, self._open)
        return session, made

    async def delete(self, session: GlobalSession) -> None:
        """Mark it; it is gone when every cluster has confirmed."""
        if not self._hub.link.ready:
            raise HubUnreachable
        meta = session.metadata
        try:
            await self._hub.client.delete(GlobalSession, meta.name, meta.namespace, uid=meta.uid)
        except (Conflict, NotFound):
            return
        except KubeError as error:
            raise HubUnreachable from error
        await self._everywhere(session, self._close)

    async def _check(self, new: NewSession) -> None:
        if not is_name(new.template):
            raise Unacceptable(
                f"{new.template!r} cannot be the name of a template: see GET /v1/templates"
            )
        try:
            template = await self._hub.find_template(new.template)
        except KubeError as error:
            raise HubUnreachable from error
        if template is None:
            raise Unacceptable(f"there is no template {new.template!r}: see GET /v1/templates")
        known = {location.metadata.name for location in self._hub.locations}
        unknown = [name for name in new.locations if name not in known]
        if unknown:
            raise Unacceptable(f"there is no location {unknown[0]!r}: see GET /v1/locations")

    async def _same(self, wanted: GlobalSession) -> GlobalSession:
        name = wanted.metadata.name
        try:
            found = await self._hub.client.get(GlobalSession, name, self._hub.namespace)
        except NotFound:
            raise Refused(f"the session {name} has just been deleted: try again") from None
        except KubeError as error:
            raise HubUnreachable from error
        if owner_in(found.spec.owner) != wanted.spec.owner:
            raise Refused(f"the name {name} is taken")
        if found.metadata.deleting:
            raise Refused(f"the session {name} is still being deleted: try again later")
        if replace(found.spec, owner=wanted.spec.owner) != wanted.spec:
            raise Refused(f"there is a session {name} already, and it is a different one")
        return found

    # The members, as far as they answer now -------------------------------------------

    async def _everywhere(self, session: GlobalSession, do: Do) -> None:
        members = []
        for location in self._hub_view.seen.all():
            member = self._hub_view.members.get(location.name)
            if member is not None and location.ready and location.open_to(session):
                members.append(member)
        if not members:
            return
        tasks = [asyncio.create_task(self._try(member, session, do)) for member in members]
        for task in tasks:
            # Slow ones go on when nobody waits any more; a task that nobody holds may vanish.
            self._unfinished.add(task)
            task.add_done_callback(self._unfinished.discard)
        await asyncio.wait(tasks, timeout=MEMBERS_SECONDS)

    async def _try(self, member: Member, session: GlobalSession, do: Do) -> None:
        try:
            await do(member, session)
        except (KubeError, ServiceError) as error:
            silent = isinstance(error, KubeError) and unanswered(error)
            level = logging.INFO if silent else logging.WARNING
            _log.log(level, "%s in %s: %s", session.metadata.name, member.name, error)

    async def _open(self, member: Member, session: GlobalSession) -> None:
        await self._hub_view.seats.open(member, session)

    async def _close(self, member: Member, session: GlobalSession) -> None:
        found = member.session(session.metadata.name)
        if found is not None and self._hub_view.seats.ours(found, session):
            await self._hub_view.seats.close(member, found)


def _name(owner: str, repetition_key: str) -> str:
    """The same for the same key of the same application, so that a repetition finds it."""
    if not repetition_key:
        return f"s-{secrets.token_hex(8)}"
    digest = hashlib.sha256(f"{owner}\n{repetition_key}".encode()).digest()
    return f"s-{b32encode(digest[:15]).decode().lower()}"
