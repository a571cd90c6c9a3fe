"""The writes of allocation. Each is one request that decides by itself; none builds on another.

- creating an Allocation under its server's name takes the server;
- a change names the version that was read, and the first one records the revision of the creation;
- a deletion names the uid, and where nobody may have been told meanwhile, the version too.
"""

from __future__ import annotations

import hashlib

from edgewise.api.games import Allocation, AllocationSpec
from edgewise.errors import ReadableError
from edgewise.gameservers.allocation.errors import ClusterBusy, GamesUnreachable, NothingTaken
from edgewise.gameservers.allocation.revisions import MatchKey
from edgewise.kube.client import Client
from edgewise.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from edgewise.runtime.errors import Refused

_SILENCE = (Unreachable, ServerError)
# No server can have a name with a dot, so no server is in the way of one that waits.
LINE_SUFFIX = ".waiting"


class AllocationTaken(ReadableError):
    """Another one was faster: the name is taken, or the object has changed or is gone."""


def line_name(key: MatchKey) -> str:
    """The one name under which a match can wait."""
    text = "\0".join(key)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() + LINE_SUFFIX


class Writer:
    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def create(self, name: str, spec: AllocationSpec) -> Allocation:
        """Take a server, or a place in the line. AllocationTaken if another one has it."""
        try:
            return await self._client.create(Allocation.named(name, self._namespace, spec=spec))
        except AlreadyExists:
            raise AllocationTaken from None
        except Forbidden as error:
            # In a namespace that is being deleted nothing can be created.
            raise NothingTaken(f"no server can be taken now: {error}") from error
        except TooManyRequests as error:
            raise ClusterBusy from error
        except _SILENCE as error:
            # It may have been carried out: then the repeated call finds it.
            raise GamesUnreachable from error

    async def read(self, name: str) -> Allocation | None:
        """The truth at this moment."""
        try:
            return await self._client.get(Allocation, name, self._namespace)
        except NotFound:
            return None
        except TooManyRequests as error:
            raise ClusterBusy from error
        except _SILENCE as error:
            raise GamesUnreachable from error

    async def confirm(self, allocation: Allocation, acknowledged: str | None = None) -> Allocation:
        """Make sure of an Allocation that another replica made, before a caller is told of it.

        Whoever wants to drop it deletes the version it read, and then finds this one instead.
        """
        meta, status = allocation.metadata, allocation.status
        body = {
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": {"revision": status.revision or meta.resource_version},
        }
        if acknowledged is not None:
            body["status"]["acknowledged"] = acknowledged
        try:
            return await self._client.patch(
                Allocation, meta.name, meta.namespace, body=body, subresource="status"
            )
        except (Conflict, NotFound):
            raise AllocationTaken from None
        except TooManyRequests as error:
            raise ClusterBusy from error
        except _SILENCE as error:
            raise GamesUnreachable from error

    async def drop(self, allocation: Allocation) -> None:
        """Delete this version, of which nobody was told; AllocationTaken if there is a newer."""
        await self._delete(allocation, allocation.metadata.resource_version)

    async def release(self, allocation: Allocation) -> None:
        """End it, whatever became of it; its successor of the same name stays."""
        try:
            await self._delete(allocation, None)
        except AllocationTaken:
            return

    async def _delete(self, allocation: Allocation, version: str | None) -> None:
        meta = allocation.metadata
        try:
            await self._client.delete(
                Allocation, meta.name, meta.namespace, uid=meta.uid, resource_version=version
            )
        except NotFound:
            return
        except Conflict:
            raise AllocationTaken from None
        except Forbidden as error:
            raise Refused(f"{meta.name} is not given back: {error}") from error
        except TooManyRequests as error:
            raise ClusterBusy from error
        except _SILENCE as error:
            raise GamesUnreachable from error
