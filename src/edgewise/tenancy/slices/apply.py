"""Carries out what a plan of a slice says. Every write may be repeated after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from edgewise.api.tenancy import SLICE
from edgewise.api.tenancy_slices import EMPTY_BY, GRACE, SLICE_ENDS
from edgewise.kube.errors import Conflict, Forbidden, NotFound, ServerError, TooManyRequests
from edgewise.kube.kinds.core import Taint
from edgewise.runtime.api import Api
from edgewise.tenancy.slices.nodes import slice_of
from edgewise.tenancy.slices.plan import NodeWrite, Removal, Step

AT_ONCE = 16
NO_SCHEDULE = "NoSchedule"
_TAINTS: dict[Step, tuple[str, ...]] = {
    Step.CLOSE: (SLICE,),
    Step.END: (SLICE, SLICE_ENDS),
    Step.REOPEN: (SLICE,),
    Step.OPEN: (),
    Step.RETURN: (),
}


def node_patch(write: NodeWrite) -> dict[str, Any]:
    """Only if nobody wrote the node since: else it may be in another slice now."""
    node = write.node
    meta: dict[str, Any] = {"resourceVersion": node.metadata.resource_version}
    if write.step is Step.RESERVE:
        return {"metadata": {**meta, "labels": {SLICE: write.slice}}}
    keys = _TAINTS[write.step]
    others = [each for each in node.spec.taints if each.key not in (SLICE, SLICE_ENDS)]
    ours = [Taint(key=key, value=write.slice, effect=NO_SCHEDULE) for key in keys]
    until = datetime.fromtimestamp(write.empty_by, UTC).isoformat(timespec="seconds")
    meta["annotations"] = {
        EMPTY_BY: until if keys else None,
        GRACE: str(write.grace) if keys else None,
    }
    if write.step is Step.RETURN and slice_of(node) == write.slice:
        meta["labels"] = {SLICE: None}
    return {"metadata": meta, "spec": {"taints": msgspec.to_builtins([*others, *ours])}}


async def write_nodes(api: Api, writes: Iterable[NodeWrite]) -> None:
    """One after the other, in the order of their names: two slices that want the same nodes meet
    at the first of them, and one gets none."""
    for write in sorted(writes, key=lambda each: each.node.metadata.name):
        try:
            await api.patch(write.node, node_patch(write))
        except NotFound:
            continue  # a node that went


async def _remove(api: Api, removal: Removal) -> None:
    if not removal.forced:
        try:
            await api.evict(removal.pod, grace_seconds=removal.grace)
            return
        except Forbidden as error:
            # In a namespace that ends nothing can be made, also no eviction; all there goes.
            if "being terminated" not in str(error):
                raise
    await api.delete(removal.pod, grace_seconds=removal.grace)


async def remove(api: Api, removals: Iterable[Removal]) -> bool:
    """Whether a budget, or the API server, kept some of them for now. One that does not go keeps
    no other."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(removal: Removal) -> bool:
        async with places:
            try:
                await _remove(api, removal)
            except NotFound:
                return False
            except (TooManyRequests, ServerError, Conflict):
                return True
            return False

    answers = await asyncio.gather(*(one(each) for each in removals), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return any(answers)
