"""How much a cache holds, where the cluster that it mirrors is not trusted to be modest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise.kube.errors import TooLarge
from edgewise.kube.objects import Key, Object

# What the smallest object takes in memory.
LIGHTEST = 2048


class Weights:
    """Bytes by object, about as they came; `most` says how many there may be in all."""

    def __init__(self, what: str, most: Callable[[], int]) -> None:
        self._what = what
        self._most = most
        self._each: dict[Key, int] = {}
        self.total = 0

    def add_page(self, objects: Sequence[Object], size: int) -> None:
        each = size // len(objects) if objects else 0
        for obj in objects:
            self._put(obj.key, each)
        self._check()

    def change(self, key: Key, size: int) -> None:
        self._put(key, size)
        self._check()

    def remove(self, key: Key) -> None:
        self.total -= self._each.pop(key, 0)

    def fresh(self) -> Weights:
        """For another list of the same."""
        return Weights(self._what, self._most)

    def _put(self, key: Key, size: int) -> None:
        weight = max(size, LIGHTEST)
        self.total += weight - self._each.get(key, 0)
        self._each[key] = weight

    def _check(self) -> None:
        most = self._most()
        if self.total > most:
            raise TooLarge(f"there are {self._what} of more than {most >> 20} MiB")
