"""Which port of its node each server gets.

The book is read from the pods, also at the start. kube-scheduler puts no two pods with the same
port on one node, so a number may be given twice if there are more servers than numbers; the one
that fewest pods have is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from zlib import crc32

from edgewise.api.games import GamePort, PortPolicy
from edgewise.gameservers.server.plan import CHOSEN
from edgewise.gameservers.server.settings import GamePorts
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.pods_seen import host_ports_of


class GamePortIndex:
    def __init__(self, ports: GamePorts) -> None:
        self._range = ports
        self._of_pod: dict[Key, frozenset[int]] = {}
        self._count: Counter[int] = Counter()
        self._following: Cache[Pod] | None = None

    def follow(self, pods: Cache[Pod]) -> None:
        if self._following is not pods:
            self._following = pods
            pods.subscribe(self._changed)

    def choose(self, pod: Key, ports: Sequence[GamePort], failures: int = 0) -> dict[str, int]:
        """Ports for a pod that is about to be made, by name; they are taken from now on.

        After each failure of its server the search begins one further: what made it fail may be
        a port that somebody has who is in no book.
        """
        found: dict[str, int] = {}
        self.give_back(pod)
        for port in ports:
            if port.policy is PortPolicy.STATIC and port.host_port is not None:
                found[port.name] = port.host_port
        for port in ports:
            if port.policy in CHOSEN:
                found[port.name] = self._fewest(
                    crc32(f"{pod}/{port.name}".encode()) + failures, set(found.values())
                )
        self._note(pod, frozenset(found.values()))
        return found

    def give_back(self, pod: Key) -> None:
        """The pod was not made."""
        self._note(pod, frozenset())

    def holders(self, number: int) -> int:
        return self._count[number]

    def _fewest(self, begin: int, but: Set[int]) -> int:
        first, size = self._range.first, self._range.last - self._range.first + 1
        offset = begin % size
        best, least = first + offset, -1
        for step in range(size):
            number = first + (offset + step) % size
            if number in but:
                continue
            holders = self._count[number]
            if not holders:
                return number
            if least < 0 or holders < least:
                best, least = number, holders
        return best

    def _changed(self, old: Pod | None, new: Pod | None, _: bool) -> None:
        if old is not None and new is not None:
            return  # the ports of a pod never change
        pod = new or old
        if pod is not None:
            self._note(pod.key, frozenset(host_ports_of(new).values()) if new else frozenset())

    def _note(self, pod: Key, numbers: frozenset[int]) -> None:
        before = self._of_pod.pop(pod, frozenset())
        for number in before:
            self._count[number] -= 1
            if not self._count[number]:
                del self._count[number]
        if numbers:
            self._of_pod[pod] = numbers
            self._count.update(numbers)
