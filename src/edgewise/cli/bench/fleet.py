"""`edgewise bench fleet`: what a fleet of game servers costs, beside bare pods."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from edgewise.bench.gameservers.fleet import FleetBench
from edgewise.bench.gameservers.replacement import ReplacementBench
from edgewise.bench.gameservers.sketch import SketchBench
from edgewise.bench.process_cost import rss_mb
from edgewise.cli.bench.storing import finish
from edgewise.domain import install_domains
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster
from edgewise.local.connecting import connect
from edgewise.local.images.building import SIDECAR_IMAGE
from edgewise.local.platform import Platform, running_platform
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

# Of 1,000 servers more than twenty nodes, whose Leases live longer: kwok lists the pods of a node
# each time it renews its Lease, which is no part of what a fleet costs.
PODS_PER_NODE = 45


@app.command()
def fleet(
    servers: Annotated[int, typer.Option(min=1, max=5000, help="Servers of the fleet.")] = 1000,
    runs: Annotated[int, typer.Option(min=1, help="How often each way is measured.")] = 5,
    down: Annotated[bool, typer.Option("--down", help="Also how long it takes to remove.")] = False,
    real: Annotated[
        int, typer.Option(min=0, help="Replacements on real nodes instead: how many.")
    ] = 0,
    sketch: Annotated[
        bool,
        typer.Option("--sketch", help="The same writes without an operator instead, and no fleet."),
    ] = False,
) -> None:
    """Measure a fleet beside bare pods, in one run on a cluster of its own."""
    if real:
        figures = for_real(real)
    elif sketch:
        figures = sketched(servers, runs)
    else:
        figures = simulated(servers, runs, down=down)
    finish("fleet", figures)


def simulated(servers: int, runs: int, *, down: bool) -> dict[str, Any]:
    nodes = -(-servers // PODS_PER_NODE) + 1
    with temporary_cluster("bench", simulated_nodes=nodes) as cluster:

        async def measure() -> dict[str, Any]:
            async with with_operator(cluster) as (client, platform):
                bench = FleetBench(cluster, client, platform, servers, tell)
                return await bench.run(runs, down=down)

        return asyncio.run(measure())


def sketched(servers: int, runs: int) -> dict[str, Any]:
    nodes = -(-servers // PODS_PER_NODE) + 1
    with temporary_cluster("bench", simulated_nodes=nodes) as cluster:

        async def measure() -> dict[str, Any]:
            async with connect(cluster.home.operator_kubeconfig) as client:
                await install_domains(client, [GAMESERVERS], GAMESERVERS.kinds)
                settings = Settings(
                    sidecar_image=SIDECAR_IMAGE, operator_url="http://127.0.0.1:8081"
                )
                return await SketchBench(cluster, client, settings, servers, tell).run(runs)

        return asyncio.run(measure())


def for_real(rounds: int) -> dict[str, Any]:
    with temporary_cluster("bench", nodes=1) as cluster:

        async def measure() -> dict[str, Any]:
            async with with_operator(cluster) as (client, _):
                figures = await ReplacementBench(client, tell).run(rounds)
                return figures | {"sidecar_rss_mb": sidecar_rss()}

        return asyncio.run(measure())


def sidecar_rss() -> float:
    """Of the largest sidecar that runs on this machine."""
    found = [0.0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"edgewise.agents.sidecar" in (folder / "cmdline").read_bytes():
                found.append(rss_mb(int(folder.name)))
        except OSError:
            continue  # it has ended
    return round(max(found), 1)


@asynccontextmanager
async def with_operator(cluster: LocalCluster) -> AsyncIterator[tuple[Client, Platform]]:
    async with cluster.client() as client:
        await install_domains(client, [GAMESERVERS], GAMESERVERS.kinds)
        async with running_platform(cluster, gateway=False) as platform:
            yield client, platform


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
