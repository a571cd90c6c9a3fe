"""Which keys of a controller wait for an object that cannot be read.

An object that does not fit its type is not in the caches, as if it had been deleted. A controller
that acted on that would remove what belongs to it: the pods of a session, the namespaces of a
tenant. So its own key is not reconciled, and neither are those that it concerns, until it is
mended or really deleted. All others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from edgewise.kube.objects import Key, Object
from edgewise.kube.unreadable import Unreadable, bare
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.controller import Controller
from edgewise.runtime.watches import Watch


class HeldBack(msgspec.Struct, frozen=True):
    """About which object to tell why a key is not reconciled, and what."""

    regarding: Object
    sentence: str


class UnreadableNeighbours:
    def __init__(
        self, controller: Controller[Any], watched: Sequence[tuple[Watch, Cache[Any]]]
    ) -> None:
        """The first of `watched` is the controller's own kind."""
        self._controller = controller
        self._watched = watched

    def holding(self, key: Key) -> HeldBack | None:
        """Why a key has to wait; None, as nearly always, if it has not."""
        for number, (watch, cache) in enumerate(self._watched):
            if not cache.left_out:
                continue
            if number == 0 and (own := cache.left_out.get(key)) is not None:
                return self._told(watch, own, f"{own.why}; it is left as it is until then")
            for each in cache.left_out.values():
                # The last version that could be read still stands for it.
                if cache.get(each.key) is None and self._concerns(watch, each, key):
                    return self._told(watch, each, f"{each.why}; {key} waits for it", of=key)
        return None

    def _told(
        self, watch: Watch, unreadable: Unreadable, sentence: str, of: Key | None = None
    ) -> HeldBack:
        """Who waits is told about itself, if it is there."""
        waiting = self._controller.cache[self._controller.kind].get(of) if of is not None else None
        regarding = waiting or bare(watch.kind)(metadata=unreadable.metadata)
        return HeldBack(regarding, sentence)

    def _concerns(self, watch: Watch, unreadable: Unreadable, key: Key) -> bool:
        route = watch.unread or watch.route
        found = bare(watch.kind)(metadata=unreadable.metadata)
        try:
            return key in route(found, self._controller.kind.KIND, self._controller.cache)
        except Exception:
            # It asks for more than metadata: nobody knows, so everybody near waits.
            namespace = unreadable.metadata.namespace
            return not namespace or not key.namespace or namespace == key.namespace
