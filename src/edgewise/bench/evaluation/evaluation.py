"""Several cases on fresh clusters, one after the other, with one load."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum

import msgspec

from edgewise.api.sessions import Session
from edgewise.bench.evaluation.api_writes import api_writes
from edgewise.bench.evaluation.cases.bare import BareCase
from edgewise.bench.evaluation.cases.case import (
    Case,
    Stage,
    make_namespace,
    node_addresses,
    remove_namespace,
)
from edgewise.bench.evaluation.cases.deployment import DeploymentCase
from edgewise.bench.evaluation.cases.edgewise import EdgewiseCase
from edgewise.bench.evaluation.cases.session_deployment import SessionDeploymentCase
from edgewise.bench.evaluation.choosing import Choose, Choosing
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.results import Writer
from edgewise.bench.evaluation.rights import check_rights
from edgewise.bench.evaluation.running import Place, TraceRun
from edgewise.bench.evaluation.trace import Trace
from edgewise.bench.evaluation.use import SAMPLE_SECONDS, Use
from edgewise.bench.evaluation.visiting import PATIENCE_SECONDS
from edgewise.bench.evaluation.workloads.workload import Workload
from edgewise.bench.machine_load import MachineLoad
from edgewise.kube.client import Client
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Pod, Service
from edgewise.runtime.awaiting import watching

Tell = Callable[[str], None]


class CaseName(StrEnum):
    DEPLOYMENT = "deployment"
    SESSION_DEPLOYMENT = "session-deployment"
    EDGEWISE = "edgewise"
    BARE = "bare"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """How the case Edgewise is set up."""

    reuse_seconds: int = 0
    across: bool = False
    warm: int = 0


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to run on, and the programs of ours that run beside it, by name."""

    client: Client
    workload: Workload
    parts: dict[str, int] = {}


@contextlib.asynccontextmanager
async def a_case(
    name: CaseName, ground: Ground, variant: Variant, speed: float
) -> AsyncIterator[Case]:
    stage = Stage(
        client=ground.client,
        workload=ground.workload,
        addresses=await node_addresses(ground.client),
        within=PATIENCE_SECONDS,
    )
    async with watching(ground.client, *KINDS[name]) as waits:
        match name:
            case CaseName.BARE:
                yield BareCase(stage, *waits)
            case CaseName.DEPLOYMENT:
                yield DeploymentCase(stage, *waits)
            case CaseName.SESSION_DEPLOYMENT:
                yield SessionDeploymentCase(stage, *waits)
            case CaseName.EDGEWISE:
                yield EdgewiseCase(
                    stage,
                    *waits,
                    reuse_seconds=compressed(variant.reuse_seconds, speed),
                    across=variant.across,
                    warm=variant.warm,
                )


def compressed(seconds: int, speed: float) -> int:
    """How long a pod is kept is a time of the trace, too; a timeout has whole seconds."""
    return max(1, round(seconds / speed)) if seconds else 0


KINDS = {
    CaseName.BARE: (Pod,),
    CaseName.DEPLOYMENT: (Deployment,),
    CaseName.SESSION_DEPLOYMENT: (Pod, Service),
    CaseName.EDGEWISE: (Session,),
}


async def all_writes(grounds: Sequence[Ground]) -> int | None:
    counts = [await api_writes(ground.client) for ground in grounds]
    known = [each for each in counts if each is not None]
    return sum(known) if len(known) == len(counts) else None


async def run_case(
    name: CaseName,
    grounds: Sequence[Ground],
    trace: Trace,
    *,
    variant: Variant,
    speed: float,
    choose: Choose = Choose.TURN,
    writer: Writer,
    tell: Tell,
    command: str = "",
) -> dict[str, float]:
    """One case from beginning to end; its namespaces are gone afterwards, whatever happened.

    Answers how busy the machine was, and what its host took.
    """
    for ground in grounds:
        await check_rights(ground.client, name)
    try:
        async with contextlib.AsyncExitStack() as stack:
            places = []
            for ground in grounds:
                await make_namespace(ground.client)
                case = await stack.enter_async_context(a_case(name, ground, variant, speed))
                places.append(Place(ground.client, case, ground.workload))
            nodes = [(await node_addresses(ground.client))[0] for ground in grounds]
            choosing = Choosing(nodes)
            run = TraceRun(
                places, trace, choosing=choosing, speed=speed, keep=writer.keep, tell=tell
            )
            await run.prepare()
            if choose is Choose.LATENCY:
                await stack.enter_async_context(choosing.measuring())
            parts = {
                part if len(grounds) == 1 else f"{part} {number}": pid
                for number, ground in enumerate(grounds, start=1)
                for part, pid in ground.parts.items()
            }
            before, written = MachineLoad.now(), await all_writes(grounds)
            use = Use([ground.client for ground in grounds], parts, run.elapsed)
            await use.begin()
            sampling = asyncio.create_task(use.keep(SAMPLE_SECONDS, writer.keep))
            try:
                await run.run()
            finally:
                sampling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sampling
            machine = before.until(MachineLoad.now())
            now = await all_writes(grounds)
            writes = None if written is None or now is None else now - written
            writer.keep(
                Record(
                    kind=Kind.DONE,
                    at=run.elapsed(),
                    machine=machine,
                    api_writes=writes,
                    command=command,
                )
            )
            return machine
    finally:
        for ground in grounds:
            await remove_namespace(ground.client)
