"""Runs a gateway: the agent fed from a cluster's sessions, or an Envoy by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.agent import AgentOptions, GatewayAgent, running
from edgewise.agents.gateway.envoy_process import EnvoyProcess
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.watch import RoutedSession, SessionWatch
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.shared_caches import SharedCaches


async def serve_sessions(options: AgentOptions, access: Access, ended: asyncio.Event) -> None:
    """Serve the sessions of a cluster until `ended`."""
    agent = GatewayAgent(options)
    async with Client(access) as client:
        caches = SharedCaches(
            client,
            trims={RoutedSession: RoutedSession.detached},
            metrics=Metrics(agent.metrics.registry),
        )
        watch = SessionWatch(agent.routing, domain=options.settings.domain)
        watch.follow(caches.of(RoutedSession))
        agent.trouble = lambda: "; ".join(caches.troubles().values())
        async with agent.running():
            await until_first(caches.run(), know(agent, caches), agent.failed.wait(), ended.wait())


async def know(agent: GatewayAgent, caches: SharedCaches) -> None:
    await caches.wait_synced()
    agent.routing.known.set()
    await asyncio.Event().wait()  # it stays known


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
