"""How long a client waits between two tries, the same rule wherever one is refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

# Where the address is the right one, and the way to it is being opened.
RETRY_SECONDS = 0.005
# Where the pod may be another client's: a client that asked more often would only load them.
REFUSED_SECONDS = 0.05
LONGEST_SECONDS = 1.0


async def pauses(first: float, longest: float = LONGEST_SECONDS) -> AsyncIterator[int]:
    """The numbers of the tries: one at once, then with pauses that grow, and chance in them."""
    number, pause = 0, first
    while True:
        yield number
        number += 1
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(longest, pause * 1.3)
