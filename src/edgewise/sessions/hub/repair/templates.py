"""Keeps the members' copies of the session templates equal to the hub's."""

from __future__ import annotations

import asyncio

from edgewise.api.global_sessions import HUB_LABEL
from edgewise.api.sessions import SessionTemplate
from edgewise.runtime.keyed_workers import KeyedWorkers
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Member


class TemplateRepair:
    def __init__(self, hub_view: HubView) -> None:
        self._hub_view = hub_view
        self._hub = hub_view.hub
        # Of what was written last where: the original's version and the copy's generation. A
        # copy that is not equal even so (a webhook there changes it) is not written again.
        self._written: dict[tuple[str, str], tuple[str, int]] = {}
        self.workers = KeyedWorkers("template", self.repair, count=2)
        self._hub.templates.subscribe(self._changed)
        self._hub.templates.on_left_out(lambda each: self.workers.queue.add(each.key.name))
        hub_view.members.on_open(self._member_opened)

    def add_all(self) -> None:
        names = {template.metadata.name for template in self._hub.templates}
        for member in self._hub_view.members.all():
            names |= {template.metadata.name for template in member.templates}
        for name in names:
            self.workers.queue.add(name, bulk=True)

    async def repair(self, name: str) -> float | None:
        if not self._hub.link.ready:
            raise HubUnreachable
        if any(each.name == name for each in self._hub.templates.left_out):
            return None  # it is there, and says nothing that could be copied
        template = self._hub.template(name)
        self._forget_copies(name, gone=template is None)
        members = [member for member in self._hub_view.members.all() if member.ready]
        outcomes = await asyncio.gather(
            *(self._repair_in(member, name, template) for member in members),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return None

    def _forget_copies(self, name: str, *, gone: bool) -> None:
        there = () if gone else {member.name for member in self._hub_view.members.all()}
        for key in [key for key in self._written if key[1] == name and key[0] not in there]:
            del self._written[key]

    async def _repair_in(self, member: Member, name: str, template: SessionTemplate | None) -> None:
        copy = member.template(name)
        if template is None or template.metadata.deleting:
            ours = copy is not None and self._is_copy(copy, template)
            if copy is not None and ours and not copy.metadata.deleting:
                await self._hub_view.seats.drop_template(member, copy)
            return
        if copy is not None and copy.spec == template.spec:
            return
        key, version = (member.name, name), template.metadata.resource_version
        if copy is not None and self._written.get(key) == (version, copy.metadata.generation):
            return
        written = await self._hub_view.seats.put_template(member, template)
        self._written[key] = version, written.metadata.generation

    def _is_copy(self, copy: SessionTemplate, template: SessionTemplate | None) -> bool:
        labelled = copy.metadata.labels.get(HUB_LABEL) == self._hub.hub_id
        return labelled and (template is None or copy.metadata.uid != template.metadata.uid)

    def _changed(self, old: SessionTemplate | None, new: SessionTemplate | None, _: bool) -> None:
        found = new or old
        if found is not None and (old is None or new is None or _matters(old, new)):
            self.workers.queue.add(found.metadata.name)

    def _member_opened(self, member: Member) -> None:
        member.templates.subscribe(self._changed)
        member.on_health(lambda: self.add_all() if member.ready else None)


def _matters(old: SessionTemplate, new: SessionTemplate) -> bool:
    before, after = old.metadata, new.metadata
    return before.generation != after.generation or before.deleting != after.deleting
