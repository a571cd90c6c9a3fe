"""Runs a gateway: the agent fed from the objects of a cluster, or an Envoy by itself."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.agent import AgentOptions, GatewayAgent, running
from edgewise.agents.gateway.envoy_process import EnvoyProcess
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.settings import SettingsError
from edgewise.exposure.routing import RouteSource
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.objects import Object
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.metrics import Metrics

# How often it is asked whether a kind that cannot be listed is there at all.
LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


async def serve_routes(
    options: AgentOptions,
    access: Access,
    sources: Sequence[RouteSource[Any]],
    ended: asyncio.Event,
) -> None:
    """Serve what `sources` find in a cluster until `ended`."""
    check_sources(sources)
    agent = GatewayAgent(options)
    async with Client(access) as client:
        caches = SharedCaches(
            client,
            trims={source.kind: source.trim for source in sources},
            metrics=Metrics(agent.metrics.registry),
        )
        for source in sources:
            source.follow(caches.of(source.kind), agent.routing, wildcard=options.settings.domain)
        agent.trouble = lambda: "; ".join(caches.troubles().values())
        async with agent.running():
            known = know(agent, client, caches, sources)
            await until_first(caches.run(), known, agent.failed.wait(), ended.wait())


def check_sources(sources: Sequence[RouteSource[Any]]) -> None:
    """Owners are told apart by domain and name: two sources of one domain would take the
    routes of each other's owners away."""
    several = [name for name, n in Counter(each.domain for each in sources).items() if n > 1]
    if several:
        raise SettingsError(f"two route sources call their domain {several[0]!r}")


async def know(
    agent: GatewayAgent,
    client: Client,
    caches: SharedCaches,
    sources: Sequence[RouteSource[Any]],
) -> None:
    """The routes are known once every source has been listed. One whose kind the cluster does
    not have has none; it is left out until the kind appears, unless there is no other."""
    listed = asyncio.ensure_future(caches.wait_synced())
    try:
        while not listed.done():
            await asyncio.wait({listed}, timeout=LOOK_SECONDS)
            unlisted = [each for each in sources if not caches.of(each.kind).synced]
            if len(unlisted) == len(sources):
                continue
            absent = [each for each in unlisted if await is_absent(client, each.kind)]
            if absent and absent == unlisted:
                for each in absent:
                    _log.warning(
                        "the cluster has no kind %s: routes of %s are served when it has",
                        each.kind.KIND.kind,
                        each.domain,
                    )
                break
    finally:
        listed.cancel()
    agent.routing.known.set()
    await asyncio.Event().wait()  # it stays known


async def is_absent(client: Client, kind: type[Object]) -> bool:
    """Whether the API server says so; one that does not answer has said nothing."""
    try:
        await client.kind_of(kind.KIND.api_version, kind.KIND.kind)
    except NotFound:
        return True
    except KubeError:
        return False
    return False


async def until_first(*jobs: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends; an error in it is raised."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def serve_envoy(options: AgentOptions, ended: asyncio.Event) -> None:
    """Keep an Envoy running until `ended`; the agent is another process."""
    envoy = EnvoyProcess(
        options.run_dir,
        GatewayMetrics(CollectorRegistry()),
        xds=str(options.xds) if options.xds else "",
        workers=options.workers,
        drain_seconds=options.drain_seconds,
    )
    failed = asyncio.Event()
    async with running(envoy, failed):
        await until_first(failed.wait(), ended.wait())
