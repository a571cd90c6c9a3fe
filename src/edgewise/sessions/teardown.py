"""Removes what a session left behind: deleted in order, by force, or under an old uid.

A session has no finalizer: nothing it made needs it. What belongs to it alone is named by
its uid, so whoever finds such a thing without its session can remove it, at any time.
Pooled pods go back to their template, whose controller sees that their session is gone.
"""

from __future__ import annotations

from typing import Protocol

from edgewise.api.exposure import PortClaim
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key, Object
from edgewise.runtime.api import Api
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView
from edgewise.sessions import names
from edgewise.sessions.apply import all_of
from edgewise.sessions.raw_session import RawSession


class Room(Protocol):
    """Where the teardown works: the controller."""

    @property
    def cache(self) -> CacheView: ...
    @property
    def api(self) -> Api: ...
    @property
    def child_kinds(self) -> tuple[type[Object], ...]: ...


def by_session_key(obj: Object) -> str | None:
    """Pods that belong to a session alone, and everything else that a session made."""
    labels = obj.metadata.labels
    if isinstance(obj, PortClaim):
        return obj.spec.owner if obj.spec.domain == names.DOMAIN else None
    name = labels.get(names.SESSION)
    if not name or (isinstance(obj, Pod) and names.TEMPLATE_UID in labels):
        return None
    return f"{obj.metadata.namespace}/{name}"


def session_uid(obj: Object) -> str:
    if isinstance(obj, PortClaim):
        return obj.spec.uid
    return obj.metadata.labels.get(names.SESSION_UID, "")


def left_behind(key: Key, living: str, room: Room) -> list[Object]:
    """What carries the session's name, but another uid than the living one's."""
    found: list[Object] = []
    kinds: tuple[type[Object], ...] = (Pod, PortClaim, *room.child_kinds)
    for kind in kinds:
        found += room.cache[kind].by(by_session_key, str(key))
    return [obj for obj in found if session_uid(obj) != living and not obj.metadata.deleting]


async def sweep(key: Key, living: str, room: Room) -> None:
    """Remove what a predecessor of the same name has left; `living` is "" if there is none."""
    found = left_behind(key, living, room)
    if not found:
        return
    try:
        session = await room.api.get(RawSession, key.name, key.namespace)
    except NotFound:
        pass
    else:
        # The streams are not in step; what seems left behind may be the session's own.
        if not session.metadata.deleting and session.metadata.uid != living:
            raise TryAgainNow(f"session {key} is there after all")

    async def remove(obj: Object) -> None:
        await room.api.delete(obj, propagation="Background")

    await all_of((remove, found))
