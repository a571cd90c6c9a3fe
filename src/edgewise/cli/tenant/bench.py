"""`edgewise bench tenancy`: what a tenant costs."""

import asyncio
import sys
from typing import Annotated, Any

import typer

from edgewise.bench.tenancy.establish import TenancyBench
from edgewise.cli.bench.storing import finish
from edgewise.cli.tenant.reading import BadTenantOption
from edgewise.domain import cluster_kinds, install_domains
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import running_platform
from edgewise.operator import DOMAINS
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

MOST = 10_000


@app.command()
def tenancy(
    tenants: Annotated[
        str, typer.Option(help="How many tenants at once; several numbers with commas.")
    ] = "4",
    tree: Annotated[
        int, typer.Option(min=0, max=MOST, help="Children of one tenant, one after the other.")
    ] = 0,
) -> None:
    """Measure tenants beside the same objects from a plain client, on a cluster of its own."""
    counts = [_count(each) for each in tenants.split(",")]
    with temporary_cluster("bench", simulated_nodes=1) as cluster:
        figures = asyncio.run(_measure(cluster, counts, tree))
    finish("tenancy", figures)


def _count(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST:
        raise BadTenantOption(f"--tenants {text!r}: write numbers from 1 to {MOST}, with commas")
    return int(text)


async def _measure(cluster: LocalCluster, counts: list[int], tree: int) -> dict[str, Any]:
    async with cluster.client() as client:
        await install_domains(client, DOMAINS, cluster_kinds(DOMAINS))
        async with running_platform(cluster, gateway=False) as platform:
            bench = TenancyBench(client, platform.operator_url, _say)
            return await bench.run(counts, tree)


def _say(line: str) -> None:
    print(line, file=sys.stderr)
