"""A place for one value, where a newer one takes the place of an older one nobody took yet.

Boxes for an old picture help nobody, and a queue in front of a slow detector only ever grows.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Closed(Exception):
    """No value will come any more."""


class Latest(Generic[T]):
    def __init__(self) -> None:
        self.dropped = 0
        self._value: list[T] = []
        self._closed = False
        self._changed = asyncio.Event()

    def put(self, value: T) -> None:
        self.dropped += len(self._value)
        self._value = [value]
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def take(self) -> T:
        """The newest value, once there is one; Closed when there never will be."""
        await self._changed.wait()
        if self._closed:
            raise Closed
        self._changed.clear()
        return self._value.pop()
