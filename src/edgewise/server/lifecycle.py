"""Sessions of the fleet: found, made and taken down.

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

from edgewise.api.fleet import FINALIZER, Failover, FleetSession, FleetSessionSpec
from edgewise.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from edgewise.kube.objects import ObjectMeta
from edgewise.server.bindings import unanswered
from edgewise.server.errors import (
    FleetError,
    HubUnreachable,
    Refused,
    Unacceptable,
)
from edgewise.server.fleet import Fleet, allows
from edgewise.server.members import Member

# The caller waits this long for members; the repair has all the time in the world.
MEMBERS_SECONDS = 3.0

_log = logging.getLogger(__name__)

# It becomes a label of pods in the members.
SESSION_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
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


Do = Callable[[Member, FleetSession], Awaitable[None]]


class Lifecycle:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._hub = fleet.hub
        self._unfinished: set[asyncio.Task[None]] = set()

    async def find(self, name: str) -> FleetSession | None:
        """A session that exists; one that another replica has just made is found too."""
        known = self._hub.session(name)
        if known is not None or not self._hub.mirror.ready:
            return known
        try:
            return await self._hub.client.get(FleetSession, name, self._hub.namespace)
        except NotFound:
            return None
        except KubeError as error:
            raise HubUnreachable from error

    async def create(
        self, new: NewSession, *, owner: str, repetition_key: str = ""
    ) -> tuple[FleetSession, bool]:
        """The session, and whether this call made it. Repeating the call is safe."""
        if not self._hub.mirror.ready:
            raise HubUnreachable
        await self._check(new)
        name = new.name or _name(owner, repetition_key)
        wanted = FleetSession(
            api_version=FleetSession.KIND.api_version,
            kind=FleetSession.KIND.kind,
            metadata=ObjectMeta(name=name, namespace=self._hub.namespace, finalizers=[FINALIZER]),
            spec=FleetSessionSpec(
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
        await self._everywhere(session, self._open)
        return session, made

    async def delete(self, session: FleetSession) -> None:
        """Mark it; it is gone when every cluster has confirmed."""
        if not self._hub.mirror.ready:
            raise HubUnreachable
        meta = session.metadata
        try:
            await self._hub.client.delete(FleetSession, meta.name, meta.namespace, uid=meta.uid)
        except (Conflict, NotFound):
            return
        except KubeError as error:
            raise HubUnreachable from error
        await self._everywhere(session, self._close)

    async def _check(self, new: NewSession) -> None:
        try:
            template = await self._hub.find_template(new.template)
        except KubeError as error:
            raise HubUnreachable from error
        if template is None:
            raise Unacceptable(f"there is no template {new.template!r}: see GET /v1/templates")
        known = {cluster.metadata.name for cluster in self._hub.clusters}
        unknown = [name for name in new.locations if name not in known]
        if unknown:
            raise Unacceptable(f"there is no location {unknown[0]!r}: see GET /v1/locations")

    async def _same(self, wanted: FleetSession) -> FleetSession:
        name = wanted.metadata.name
        try:
            found = await self._hub.client.get(FleetSession, name, self._hub.namespace)
        except NotFound:
            raise Refused(f"the session {name} has just been deleted: try again") from None
        except KubeError as error:
            raise HubUnreachable from error
        if found.spec.owner != wanted.spec.owner:
            raise Refused(f"the name {name} is taken")
        if found.metadata.deleting:
            raise Refused(f"the session {name} is still being deleted: try again later")
        if found.spec != wanted.spec:
            raise Refused(f"there is a session {name} already, and it is a different one")
        return found

    # The members, as far as they answer now -------------------------------------------

    async def _everywhere(self, session: FleetSession, do: Do) -> None:
        members = []
        for cluster in self._hub.clusters:
            member = self._fleet.members.get(cluster.metadata.name)
            if member is not None and member.ready and allows(session, cluster):
                members.append(member)
        if not members:
            return
        tasks = [asyncio.create_task(self._try(member, session, do)) for member in members]
        for task in tasks:
            # Slow ones go on when nobody waits any more; a task that nobody holds may vanish.
            self._unfinished.add(task)
            task.add_done_callback(self._unfinished.discard)
        await asyncio.wait(tasks, timeout=MEMBERS_SECONDS)

    async def _try(self, member: Member, session: FleetSession, do: Do) -> None:
        try:
            await do(member, session)
        except (KubeError, FleetError) as error:
            silent = isinstance(error, KubeError) and unanswered(error)
            level = logging.INFO if silent else logging.WARNING
            _log.log(level, "%s in %s: %s", session.metadata.name, member.name, error)

    async def _open(self, member: Member, session: FleetSession) -> None:
        await self._fleet.seats.open(member, session)

    async def _close(self, member: Member, session: FleetSession) -> None:
        found = member.session(session.metadata.name)
        if found is not None and self._fleet.seats.ours(found, session):
            await self._fleet.seats.close(member, found)


def _name(owner: str, repetition_key: str) -> str:
    """The same for the same key of the same application, so that a repetition finds it."""
    if not repetition_key:
        return f"s-{secrets.token_hex(8)}"
    digest = hashlib.sha256(f"{owner}\n{repetition_key}".encode()).digest()
    return f"s-{b32encode(digest[:15]).decode().lower()}"
