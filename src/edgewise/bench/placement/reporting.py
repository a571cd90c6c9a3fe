"""Reports from a place, as a process there, and the report key that an application gives it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import msgspec

from edgewise.api.placement import LatencyPlacement, seconds
from edgewise.bench.placement.objects import NAME, SERVICE_PORT
from edgewise.client.placement import NodeAddress, ReportKey
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Service
from edgewise.local.clusters import LocalCluster
from edgewise.local.places import command_in, environment_in
from edgewise.placement.report_keys import LIFETIME_SECONDS, report_key
from edgewise.placement.reports import TOPIC
from edgewise.placement.reports_secret import PING_PORT, ReportsAccess

CLIENT = "user-1"


class ReporterFailed(ReadableError):
    """A reporter ended by itself."""


class Reporting:
    """Reporters of one placement. Keys are made as the server makes them."""

    def __init__(
        self,
        client: Client,
        access: ReportsAccess,
        cluster: LocalCluster,
        namespace: str,
    ) -> None:
        self._client = client
        self._access = access
        self._cluster = cluster
        self._namespace = namespace

    async def _key(self) -> ReportKey:
        placement = await self._client.get(LatencyPlacement, NAME, self._namespace)
        expires = int(time.time()) + LIFETIME_SECONDS
        key = report_key(self._access.key, placement.metadata.uid, CLIENT, "", expires)
        nodes = [
            NodeAddress(
                node=node, ping=f"{self._cluster.record.addresses.node(number)}:{PING_PORT}"
            )
            for number, node in enumerate(self._cluster.spec.node_names, start=1)
        ]
        return ReportKey(
            client=CLIENT,
            key=key.hex(),
            expires=expires,
            topic=f"{TOPIC}/{self._cluster.name}/{self._namespace}/{NAME}",
            broker=self._access.broker,
            observation_ms=seconds(placement.spec.observation) * 1000,
            mode=placement.spec.mode,
            nodes=nodes if placement.spec.mode == "Probe" else [],
        )

    async def _url(self) -> str:
        """By address: how long a name takes to be found is not how far the service is."""
        service = await self._client.get(Service, NAME, self._namespace)
        return f"http://{service.spec.cluster_ip}:{SERVICE_PORT}/"

    @contextlib.asynccontextmanager
    async def at(self, place: str) -> AsyncIterator[None]:
        """A user of that place who reports, for as long as the block runs."""
        told = await self._key()
        command = [sys.executable, "-m", "edgewise.bench.placement.reporter", await self._url()]
        process = await asyncio.create_subprocess_exec(
            *command_in(self._cluster, place, command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment_in(self._cluster, place),
            start_new_session=True,
        )
        try:
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise ReporterFailed("a reporter has no input")
            process.stdin.write(msgspec.json.encode(told) + b"\n")
            await process.stdin.drain()
            # How long Python takes to start is no part of any figure.
            async with asyncio.timeout(30):
                await process.stdout.readline()
            yield
            if process.returncode is not None:
                said = (await process.stderr.read()).decode(errors="replace")
                raise ReporterFailed(f"a reporter ended early: {said[-300:]}")
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), 5)
            except TimeoutError:
                process.kill()
                await process.wait()
