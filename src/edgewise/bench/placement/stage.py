"""What placement needs to run beside a local cluster: operator, broker, reports and ping agents.

All of it runs in the cluster's own network, where clients of a place find it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from edgewise.domain import install_domains
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster
from edgewise.local.machines.machines import init_of
from edgewise.local.platform import Program, free_ports, running_platform
from edgewise.placement.domain import PLACEMENT
from edgewise.placement.reports_secret import PING_PORT, ReportsAccess, read_access


class NoReports(ReadableError):
    """The program for reports runs, and has not said where."""


@contextlib.asynccontextmanager
async def placement_stage(
    cluster: LocalCluster, *, ping: bool = False
) -> AsyncIterator[tuple[Client, ReportsAccess]]:
    """With `ping`, each node has a ping agent, as a DaemonSet with host ports would run it."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(cluster.client())
        await install_domains(client, [PLACEMENT], PLACEMENT.kinds)
        programs = [reports_program(cluster), *(ping_agents(cluster) if ping else ())]
        for program in programs:
            stack.push_async_callback(program.stop)
        await asyncio.gather(*(program.start() for program in programs))
        await stack.enter_async_context(running_platform(cluster, gateway=False, inside=True))
        access = await read_access(client)
        if access is None or not access.broker:
            raise NoReports("the program for reports runs, and has not said where its broker is")
        yield client, access


def reports_program(cluster: LocalCluster) -> Program:
    (port,) = free_ports(1)
    address = cluster.own_address
    arguments = [
        "reports",
        "--run-broker",
        f"--bind={address}",
        f"--port={port}",
        f"--kubeconfig={cluster.kubeconfig}",
    ]
    return Program(
        cluster,
        "reports",
        arguments,
        f"http://{address}:{port}/readyz",
        entry=cluster.network_entry(),
    )


def ping_agents(cluster: LocalCluster) -> list[Program]:
    found = []
    for number, node in enumerate(cluster.spec.node_names, start=1):
        where = f"{cluster.record.addresses.node(number)}:{PING_PORT}"
        init = init_of(cluster.home, node, cluster.record.programs["init"])
        found.append(
            Program(
                cluster,
                f"ping-{number}",
                ["ping", f"--http={where}", f"--udp={where}"],
                f"http://{where}/ping",
                entry=["nsenter", f"--net=/proc/{init.pid}/ns/net", "--"],
            )
        )
    return found
