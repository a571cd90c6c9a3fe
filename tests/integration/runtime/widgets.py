"""A custom kind to play with, and managers that look at one namespace only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Annotated, ClassVar

import msgspec

from edgewise.api.crd import CrdSpec
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record
from edgewise.runtime.manager import Manager
from edgewise.testing.eventually import eventually


class WidgetSpec(Record):
    size: int = 0
    parts: Annotated[dict[str, int], msgspec.Meta(max_length=100)] = {}


class WidgetStatus(Record):
    size: int | None = None
    observed_generation: int | None = None
    notes: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = {}
    conditions: Annotated[list[Condition], msgspec.Meta(max_length=20)] = []


class Widget(Object):
    """Something with a spec and a status."""

    KIND: ClassVar = Kind("runtime.test.edgewise.dev", "v1", "Widget", "widgets")
    CRD: ClassVar = CrdSpec()

    spec: WidgetSpec = msgspec.field(default_factory=WidgetSpec)
    status: WidgetStatus = msgspec.field(default_factory=WidgetStatus)


@contextlib.asynccontextmanager
async def running(manager: Manager, *, until_acting: bool = True) -> AsyncIterator[Manager]:
    """The manager at work; afterwards it is stopped in good order."""
    task = asyncio.create_task(manager.run(signals=False))
    try:
        if until_acting:
            await eventually(lambda: manager.acting or task.done(), within=20)
        yield manager
    finally:
        manager.stop()
        await asyncio.wait_for(task, 30)


Running = Callable[..., contextlib.AbstractAsyncContextManager[Manager]]
