"""The writes into member clusters: sessions, the clients in them, and templates.

All of them say how things shall be, so each may be repeated by anybody at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from edgewise.api.global_sessions import HUB_LABEL, SESSION_UID_LABEL, GlobalSession
from edgewise.api.sessions import Session, SessionSpec, SessionTemplate, TemplateRef
from edgewise.kube.errors import AlreadyExists, Conflict, NotFound
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.errors import Refused, Unavailable
from edgewise.sessions.hub.members import Member
from edgewise.sessions.hub.records import Hub

FIELD_MANAGER = "edgewise-server"


class ForeignSession(Refused):
    """A member has a session of the same name that this hub did not make."""

    def __init__(self, name: str, cluster: str) -> None:
        super().__init__(
            f"{cluster} has a Session {name} that this hub did not make: delete it there, or "
            "choose another name"
        )


class MemberWriter:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def ours(self, found: Session, session: GlobalSession) -> bool:
        """Whether a member's Session is its part of this session, and not of a namesake."""
        labels = found.metadata.labels
        return (
            labels.get(HUB_LABEL) == self._hub.hub_id
            and labels.get(SESSION_UID_LABEL) == session.metadata.uid
        )

    async def open(self, member: Member, session: GlobalSession) -> Session:
        """The member's part of the session, made if it is not there yet."""
        known = member.session(session.metadata.name)
        if known is not None and not known.metadata.deleting and self.ours(known, session):
            return known
        return await self._make(member, session)

    async def put(
        self, member: Member, session: GlobalSession, clients: Mapping[str, bool | None]
    ) -> Session:
        """Say of each client that it is connected, disconnected (False) or gone (None)."""
        found = await self.open(member, session)
        try:
            return await self._patch(member, found.metadata, clients)
        except (Conflict, NotFound):
            # The one that our cache shows was deleted; there may be a successor, or none.
            found = await self._make(member, session)
            return await self._patch(member, found.metadata, clients)

    async def take_out(self, member: Member, found: Session, clients: Iterable[str]) -> None:
        """Remove clients from exactly this Session; nothing if it is gone."""
        with contextlib.suppress(Conflict, NotFound):
            await self._patch(member, found.metadata, dict.fromkeys(clients))

    async def close(self, member: Member, found: Session) -> None:
        """Delete a member's part of a session."""
        with contextlib.suppress(Conflict, NotFound):
            await member.client.delete(
                Session, found.metadata.name, member.namespace, uid=found.metadata.uid
            )

    async def put_template(self, member: Member, template: SessionTemplate) -> SessionTemplate:
        """Make a member's copy of a template say what the hub's says."""
        known = member.template(template.metadata.name)
        if known is not None and known.metadata.uid == template.metadata.uid:
            return known  # the member is the hub, and this is the very same object
        copy = SessionTemplate(
            api_version=SessionTemplate.KIND.api_version,
            kind=SessionTemplate.KIND.kind,
            metadata=ObjectMeta(
                name=template.metadata.name,
                namespace=member.namespace,
                labels={HUB_LABEL: self._hub.hub_id},
            ),
            spec=template.spec,
        )
        return await member.client.apply(copy, field_manager=FIELD_MANAGER)

    async def drop_template(self, member: Member, found: SessionTemplate) -> None:
        with contextlib.suppress(Conflict, NotFound):
            await member.client.delete(
                SessionTemplate, found.metadata.name, member.namespace, uid=found.metadata.uid
            )

    async def _make(self, member: Member, session: GlobalSession) -> Session:
        """Create it, or take the one that is there, whatever the cache shows."""
        name = session.metadata.name
        template = self._hub.template(session.spec.template)
        if template is not None and member.template(session.spec.template) is None:
            await self.put_template(member, template)
        wanted = Session(
            api_version=Session.KIND.api_version,
            kind=Session.KIND.kind,
            metadata=ObjectMeta(
                name=name,
                namespace=member.namespace,
                labels={
                    HUB_LABEL: self._hub.hub_id,
                    SESSION_UID_LABEL: session.metadata.uid,
                },
            ),
            spec=SessionSpec(template_ref=TemplateRef(name=session.spec.template)),
        )
        try:
            return await member.client.create(wanted, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            found = await member.client.get(Session, name, member.namespace)
        if not self.ours(found, session):
            raise ForeignSession(name, member.name)
        if found.metadata.deleting:
            raise Unavailable(f"{name} is being deleted in {member.name}: try again shortly", 2)
        return found

    async def _patch(
        self, member: Member, found: ObjectMeta, clients: Mapping[str, bool | None]
    ) -> Session:
        return await member.client.patch(
            Session,
            found.name,
            member.namespace,
            body={
                # Never a successor of the same name.
                "metadata": {"uid": found.uid},
                "spec": {
                    "clients": {
                        client: None if connected is None else {"connected": connected}
                        for client, connected in clients.items()
                    }
                },
            },
            field_manager=FIELD_MANAGER,
        )
