"""Ports of nodes that pods have taken, and which ones the next pod should have.

No two pods share one, on whichever nodes they are: each may have to move to the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set

from edgewise.api.exposure import Port
from edgewise.kube.objects import Key

# (protocol, where to begin, what else is taken) -> a port that seems free, or None.
Pick = Callable[[str, str, Set[int]], int | None]


class HostPortIndex:
    """Fed by the index that sees the pods."""

    def __init__(self) -> None:
        self._of_pod: dict[Key, frozenset[int]] = {}
        self._pods_at: dict[int, set[Key]] = {}

    def note(self, pod: Key, numbers: Collection[int]) -> None:
        """These are all the ports of nodes that `pod` has; none: also if it is gone."""
        if not numbers and pod not in self._of_pod:
            return
        new = frozenset(numbers)
        old = self._of_pod.pop(pod, frozenset())
        if new:
            self._of_pod[pod] = new
        for number in old - new:
            pods = self._pods_at[number]
            pods.discard(pod)
            if not pods:
                del self._pods_at[number]
        for number in new - old:
            self._pods_at.setdefault(number, set()).add(pod)

    @property
    def taken(self) -> Set[int]:
        """A view, which follows the index."""
        return self._pods_at.keys()

    def taken_by_others(self, namespace: str, number: int, but_by: Set[str]) -> bool:
        """Whether a pod has taken this port; those of `but_by`, in `namespace`, do not count."""
        return any(
            pod.namespace != namespace or pod.name not in but_by
            for pod in self._pods_at.get(number, ())
        )


def pick_host_ports(
    ports: Iterable[Port], pod: str, pick: Pick, kept: Mapping[str, int] | None = None
) -> dict[str, int]:
    """A port of the node for each exposed one of a pod, by name, beside those that it keeps."""
    found = dict(kept or {})
    for port in ports:
        if port.name in found:
            continue
        number = pick(port.protocol, f"{pod}/{port.name}", set(found.values()))
        if number is not None:
            found[port.name] = number
    return found
