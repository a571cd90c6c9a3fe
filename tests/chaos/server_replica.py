"""What games do in one replica of the server, which is killed and replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from edgewise.gameservers import names
from edgewise.gameservers.hub.half import GamesHalf
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.runtime.tasks import keep
from edgewise.testing.hub_rig import QUICK
from tests.chaos.harness import CutClient
from tests.integration.conftest import ApiServer


@contextlib.asynccontextmanager
async def server_client(api_server: ApiServer) -> AsyncIterator[Client]:
    """The server, as the policies know it."""
    access = load_access(api_server.kubeconfig)
    access.impersonation = (
        ("Impersonate-User", names.SERVER_USER),
        ("Impersonate-Group", "system:masters"),
    )
    async with Client(access, timeout=5.0) as client:
        yield client


class ServerReplica:
    """One of several, all of which lead: what the leader does has to be right also then."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        cut_at: int | None = None,
        *,
        after: bool = False,
    ) -> None:
        """With `cut_at` it dies at that write, before or after it."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._life = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.kills = 0
        self.cut = CutClient(client, cut_at, after=after)
        self.half = self._begin(self.cut)

    def _begin(self, cut: Any) -> GamesHalf:
        self._life += 1
        half = GamesHalf(cut, self._namespace, patience=QUICK, replica=f"{self._name}-{self._life}")
        tasks = (*half.tasks(), *half.duties())
        self._tasks = [asyncio.create_task(keep(each)) for each in tasks]
        return half

    async def kill(self) -> None:
        """From now on nothing of it is heard, whatever is under way."""
        self.cut.dead.set()
        await self.stop()
        self.kills += 1
        self.cut = CutClient(self._client)
        self.half = self._begin(self.cut)

    async def stop(self) -> None:
        self.half.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
