"""A half of a made-up domain: bells are ConfigMaps of the hub, and the leader rings them.

It is everything that a domain brings to the server: a cache of the hub, a route and its action,
an error of its own, a task of every replica and a duty of the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from litestar import Router, get
from litestar.params import FromPath

from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.tasks import Task
from edgewise.server.http.problems import ProblemKind, documented
from edgewise.server.hub_half import HttpContext, HubContext, HubHalf
from edgewise.server.identity.permissions import Action, Reach
from edgewise.server.identity.principal import Role

LABEL = "toys.example.dev/bell"
HEAR = Action("hear a bell", {Role.ADMIN: Reach.ALL, Role.READER: Reach.ALL})


class Muffled(Exception):
    """There is such a bell, and it cannot be heard."""


MUFFLED = ProblemKind(Muffled, 409, "muffled", "The bell cannot be heard")


class Bells:
    def __init__(self, context: HubContext) -> None:
        self.namespace = context.namespace
        self.client = context.link.client
        here = Selection(namespace=context.namespace, labels=LABEL)
        self.bells: Cache[ConfigMap] = context.link.cache(ConfigMap, here)
        self.prepared = False
        self.tasks_run = 0
        self.failures = 0
        self.closed = False

    async def prepare(self) -> None:
        self.prepared = True

    def tasks(self) -> Sequence[Task]:
        return [Task("count the starts", self._count)]

    def duties(self) -> Sequence[Task]:
        return [Task("fail", self._fail), Task("ring the bells", self._ring)]

    def close(self) -> None:
        self.closed = True

    async def _count(self) -> None:
        self.tasks_run += 1

    async def _fail(self) -> None:
        """A duty of which the others must notice nothing."""
        self.failures += 1
        raise ZeroDivisionError

    async def _ring(self) -> None:
        while True:
            for bell in self.bells:
                if "rung" not in bell.data:
                    body = {"data": {"rung": "by the leader"}}
                    await self.client.patch(
                        ConfigMap, bell.metadata.name, self.namespace, body=body
                    )
            await asyncio.sleep(0.05)


def routes(bells: Bells, _: HttpContext) -> Sequence[Router]:
    @get("/{bell:str}", action=HEAR, responses=documented(409, special=(MUFFLED,)))
    async def hear(bell: FromPath[str]) -> dict[str, str]:
        found = bells.bells.get(Key(bells.namespace, bell))
        if found is None:
            raise Muffled(f"{bell} is under a cloth")
        return found.data

    return [Router("/v1/bells", route_handlers=[hear])]


TOY = HubHalf(
    name="toy",
    build=Bells,
    actions=(HEAR,),
    routes=routes,
    problems=(MUFFLED,),
    prepare=Bells.prepare,
    tasks=Bells.tasks,
    duties=Bells.duties,
    close=Bells.close,
)
