"""How a client, or a controller, tries again: the same rules in every case."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from edgewise.kube.errors import Conflict, ServerError, TooManyRequests, Unreachable
from edgewise.runtime.awaiting import WaitedInVain

# Where the address is the right one, and the way to it is being opened.
RETRY_SECONDS = 0.005
# Where the pod may be another client's: a client that asked more often would only load them.
REFUSED_SECONDS = 0.05
LONGEST_SECONDS = 1.0
INSIST_SECONDS = 60.0


async def insist(call: Callable[[], Awaitable[None]]) -> None:
    """Once more where no answer came, the server is too busy or another writer came between: all
    of it may be repeated."""
    pause, end = 0.1, time.monotonic() + INSIST_SECONDS
    while True:
        try:
            return await call()
        except (Unreachable, TooManyRequests, ServerError, Conflict):
            if time.monotonic() > end:
                raise
        await asyncio.sleep(pause)
        pause *= 2


async def pauses(
    first: float, within: float, *, sooner: Callable[[], asyncio.Event] | None = None
) -> AsyncIterator[int]:
    """The numbers of the tries: one at once, then with pauses that grow, and chance in them.

    `sooner` ends a pause when there is something new to try, and they are short again: the way
    there may still have to open. After `within` seconds it is over.
    """
    number, pause, end = 0, first, time.monotonic() + within
    while time.monotonic() < end:
        news = sooner() if sooner is not None else None  # whatever is new from now on
        yield number
        number += 1
        if await _told(news, pause * random.uniform(0.5, 1.5)):
            pause = first
        else:
            pause = min(LONGEST_SECONDS, pause * 1.3)
    raise WaitedInVain(f"no pod took the client within {within:.0f} s")


async def _told(news: asyncio.Event | None, seconds: float) -> bool:
    """Whether there was news; after so long there was none."""
    if news is None:
        await asyncio.sleep(seconds)
        return False
    # Not `wait_for`: it forgets that the client leaves when there are news that moment.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()
    return news.is_set()
