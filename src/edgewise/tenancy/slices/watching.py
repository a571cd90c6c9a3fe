"""The pods of nodes in slices: a watch for each node that is being emptied, or kept to one
tenant. No other pods are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from edgewise.kube.kinds.core import Pod
from edgewise.kube.selectors import is_name
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches


def on_node(node: str) -> Selection:
    if not is_name(node):
        raise ValueError(f"{node!r} cannot be the name of a node")
    return Selection(fields=f"spec.nodeName={node}")


class NodePods:
    def __init__(self, caches: SharedCaches) -> None:
        self._caches = caches
        self._slices: dict[str, str] = {}  # node to the slice that looks at it

    async def look_at(
        self, name: str, nodes: Iterable[str], wake: Callable[[], None]
    ) -> Mapping[str, Cache[Pod]]:
        """The pods of these nodes, from now on; those of other nodes of the slice no longer."""
        wanted = set(nodes)
        for node in [each for each, owner in self._slices.items() if owner == name]:
            if node not in wanted:
                self._close(node)
        found = {}
        for node in sorted(wanted):
            if self._slices.get(node, name) != name:
                self._close(node)  # of a slice that it left
            cache = self._caches.of(Pod, on_node(node))
            if node not in self._slices:
                self._slices[node] = name
                cache.subscribe(lambda _, __, bulk: None if bulk else wake())
            found[node] = cache
        for node in found:
            await self._caches.wait_for(Pod, on_node(node))
        return found

    def slices_with_pods_of(self, namespace: str) -> set[str]:
        return {
            owner
            for node, owner in self._slices.items()
            if self._caches.of(Pod, on_node(node)).all(namespace)
        }

    def _close(self, node: str) -> None:
        self._slices.pop(node, None)
        self._caches.close(Pod, on_node(node))
