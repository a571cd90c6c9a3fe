"""The same for many bindings, some at a time; one failure does not stop the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from edgewise.api.global_sessions import ClientBinding
from edgewise.kube.errors import KubeError
from edgewise.runtime.errors import ServiceError

AT_ONCE = 16
_log = logging.getLogger(__name__)


async def for_each(
    bindings: Iterable[ClientBinding], do: Callable[[ClientBinding], Awaitable[None]]
) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(binding: ClientBinding) -> None:
        async with gate:
            try:
                await do(binding)
            except (KubeError, ServiceError) as error:
                _log.warning("%s: %s", binding.metadata.name, error)

    await asyncio.gather(*(one(binding) for binding in bindings))
