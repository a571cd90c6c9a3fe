"""When room for pods appears in a namespace, and which sessions wait for that.

A quota says itself when it has room again: pods that are gone are taken off its count a moment
later. A pod of ours that goes may make room of another kind. Namespaces in which nobody waits
are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from edgewise.kube.kinds.core import Pod, ResourceQuota
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache


class RoomIndex:
    def __init__(self) -> None:
        self._waiting: dict[str, set[Key]] = {}
        self._appeared: dict[str, float] = {}
        self._following: Cache[ResourceQuota] | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._wake: Callable[[Key], None] = lambda _: None

    def follow(
        self,
        pods: Cache[Pod],
        quotas: Cache[ResourceQuota],
        *,
        clock: Callable[[], float],
        wake: Callable[[Key], None],
    ) -> None:
        """Begin to listen; `wake` is called for each session that waits when room appears."""
        if self._following is quotas:
            return
        self._following, self._clock, self._wake = quotas, clock, wake
        quotas.subscribe(self._quota_changed)
        pods.subscribe(self._pod_changed)

    def note(self, session: Key, *, waits: bool) -> None:
        members = self._waiting.get(session.namespace)
        if waits:
            self._waiting.setdefault(session.namespace, set()).add(session)
        elif members is not None:
            members.discard(session)
            if not members:
                del self._waiting[session.namespace]
                self._appeared.pop(session.namespace, None)

    def appeared(self, namespace: str) -> float:
        """When there last was more room than before; 0: not while anybody waited."""
        return self._appeared.get(namespace, 0.0)

    def _quota_changed(
        self, old: ResourceQuota | None, new: ResourceQuota | None, bulk: bool
    ) -> None:
        quota = new or old
        if quota is not None and not (bulk and old is None) and has_more_room(old, new):
            self._room(quota.metadata.namespace)

    def _pod_changed(self, old: Pod | None, new: Pod | None, _: bool) -> None:
        if new is None and old is not None:
            self._room(old.metadata.namespace)

    def _room(self, namespace: str) -> None:
        waiting = self._waiting.get(namespace)
        if not waiting:
            return
        self._appeared[namespace] = self._clock()
        for session in list(waiting):
            self._wake(session)


def has_more_room(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    """Whether a quota lets something through that it kept out before."""
    if new is None:
        return True
    if old is None:
        return False  # one more quota makes no room
    before, after = old.status, new.status
    if before.hard.keys() - after.hard.keys():
        return True
    return any(
        _amount(limit) - _amount(after.used.get(name, "0"))
        > _amount(before.hard.get(name, limit)) - _amount(before.used.get(name, "0"))
        for name, limit in after.hard.items()
    )


_UNITS = {"": Decimal(1), "m": Decimal("0.001")}
_UNITS |= {"u": Decimal("1e-6"), "n": Decimal("1e-9")}
_UNITS |= {prefix: Decimal(1000) ** power for power, prefix in enumerate("kMGTPE", 1)}
_UNITS |= {f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)}


def _amount(quantity: str) -> Decimal:
    """A Kubernetes quantity; what cannot be read counts as nothing."""
    digits = quantity.rstrip("numkKMGTPEi")
    try:
        return Decimal(digits) * _UNITS.get(quantity[len(digits) :], Decimal(1))
    except InvalidOperation:
        return Decimal(0)
