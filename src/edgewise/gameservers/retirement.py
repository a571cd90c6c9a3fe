"""Who has a server: the Allocation of its name, or a list of servers that its fleet removes.

All Allocations have one history, and the revisions of their creation are its order. Of a list and
an Allocation of one of its servers the earlier one counts: the program that made either of them
waits until its own creation comes by in its watch, and has seen by then all that is earlier. A list
is never taken back: when a match ends that was earlier, its server goes. It is deleted when all its
servers are gone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewise.api.games import Allocation, Server
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache, number


class Hold(msgspec.Struct, frozen=True):
    """How a server is held: by a match, or by the operator, which removes it."""

    allocation: Allocation | None = None  # of its name, and made for this very server
    retired: bool = False

    @property
    def match(self) -> Allocation | None:
        return None if self.retired else self.allocation


def created(allocation: Allocation) -> int:
    """The revision of its creation."""
    return number(allocation.status.revision or allocation.metadata.resource_version)


def retired_uids(allocation: Allocation) -> Iterable[str]:
    """An index of a cache: the servers that a list retires, by uid."""
    return allocation.spec.retires.values()


def fleet_of_list(allocation: Allocation) -> Iterable[Key]:
    """An index of a cache: the fleet whose servers a list retires."""
    if not allocation.spec.retires:
        return ()
    return (Key(allocation.metadata.namespace, allocation.spec.fleet),)


def hold_of(server: Server, allocations: Cache[Allocation]) -> Hold:
    uid = server.metadata.uid
    found = allocations.get(server.key)
    if found is not None and found.spec.server_uid != uid:
        found = None
    lists = _lists(allocations, uid)
    if found is None:
        return Hold(None, retired=bool(lists))
    return Hold(found, retired=found.spec.retired or _later(found, lists))


def overtaken(allocation: Allocation, allocations: Cache[Allocation]) -> bool:
    """Whether its server was retired before: it counts for nothing, and nobody was told of it."""
    return _later(allocation, _lists(allocations, allocation.spec.server_uid))


def unseen(allocations: Cache[Allocation], fleet: Key) -> bool:
    """Whether a list of ours has not come by in the watch: matches may be earlier."""
    return any(not _shown(each, allocations) for each in allocations.by(fleet_of_list, fleet))


def over(retiring: Allocation, servers: Cache[Server]) -> bool:
    """Whether all servers of a list are gone."""
    for name, uid in retiring.spec.retires.items():
        server = servers.get(Key(retiring.metadata.namespace, name))
        if server is not None and server.metadata.uid == uid:
            return False
    return True


def _lists(allocations: Cache[Allocation], uid: str) -> list[Allocation]:
    # The operator's cache shows its own writes before the watch does.
    found = allocations.by(retired_uids, uid) if uid else []
    return [each for each in found if _shown(each, allocations)]


def _shown(retiring: Allocation, allocations: Cache[Allocation]) -> bool:
    return created(retiring) <= allocations.revision


def _later(allocation: Allocation, lists: Iterable[Allocation]) -> bool:
    return any(created(each) < created(allocation) for each in lists)
