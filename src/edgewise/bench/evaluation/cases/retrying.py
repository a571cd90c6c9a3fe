"""Pauses between two tries, the same rule wherever a client is refused."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable

from edgewise.runtime.awaiting import WaitedInVain

# Where the address is the right one, and the way to it is being opened.
RETRY_SECONDS = 0.005
# Where the pod may be another client's: a client that asked more often would only load them.
REFUSED_SECONDS = 0.05
LONGEST_SECONDS = 1.0


async def pauses(
    first: float, within: float, *, sooner: Callable[[], asyncio.Event] | None = None
) -> AsyncIterator[int]:
    """The numbers of the tries: one at once, then with pauses that grow, and chance in them.

    `sooner` ends a pause when there is something new to try; after `within` seconds it is over.
    """
    number, pause, end = 0, first, time.monotonic() + within
    while time.monotonic() < end:
        news = sooner() if sooner is not None else None  # whatever is new from now on
        yield number
        number += 1
        await _pause(pause * random.uniform(0.5, 1.5), news)
        pause = min(LONGEST_SECONDS, pause * 1.3)
    raise WaitedInVain(f"no pod took the client within {within:.0f} s")


async def _pause(seconds: float, news: asyncio.Event | None) -> None:
    if news is None:
        await asyncio.sleep(seconds)
        return
    # Not `wait_for`: it forgets that the client leaves when there are news that moment.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()
