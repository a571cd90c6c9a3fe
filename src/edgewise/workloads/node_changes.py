"""Whether anything of a node changed that somebody looks at."""

from __future__ import annotations

from collections.abc import Callable

from edgewise.kube.kinds.core import Node
from edgewise.kube.objects import Key


class NodeChanges:
    """Nodes report every few seconds, and mostly nothing of it matters: what does is remembered of
    each, for as long as the node is there."""

    def __init__(self, facts: Callable[[Node], object]) -> None:
        self._facts = facts
        self._known: dict[Key, object] = {}

    def matters(self, key: Key, current: Node | None) -> bool:
        """Whether it is another one now than at the last call; `current` is None if it is gone."""
        if current is None:
            return self._known.pop(key, None) is not None
        facts = self._facts(current)
        if self._known.get(key) == facts:
            return False
        self._known[key] = facts
        return True

    def __len__(self) -> int:
        return len(self._known)
