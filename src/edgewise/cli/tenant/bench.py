"""`edgewise bench tenancy`: what a tenant costs."""

import sys
from typing import Annotated, Any

import typer
import uvloop

from edgewise.bench.tenancy.bench import Asked, measure
from edgewise.bench.tenancy.crowd import FEW
from edgewise.bench.tenancy.stage import NotMeasured, Stage
from edgewise.cli.bench.storing import finish
from edgewise.cli.numbers import countable
from edgewise.cli.tenant.reading import BadTenantOption
from edgewise.domain import cluster_kinds, install_domains
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import running_platform
from edgewise.operator import DOMAINS
from edgewise.runtime.garbage import put_old_objects_aside
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

MOST = 10_000


@app.command()
def tenancy(
    tenants: Annotated[
        str, typer.Option(help="How many tenants at once; several numbers with commas.")
    ] = "",
    rate: Annotated[
        float,
        typer.Option(
            min=0,
            max=1000,
            callback=countable,
            help="Tenants in a second, instead of all at once.",
        ),
    ] = 0.0,
    pods: Annotated[str, typer.Option(help="How many pods; several numbers with commas.")] = "",
    over: Annotated[
        int, typer.Option(min=1, max=1000, help="Over how many tenants the pods are spread.")
    ] = 32,
    tree: Annotated[
        int, typer.Option(min=0, max=MOST, help="Children of one tenant, one after the other.")
    ] = 0,
    rounds: Annotated[
        int, typer.Option(min=1, max=100, help="How often each is measured beside its floor.")
    ] = 5,
) -> None:
    """Measure tenants beside the same objects from a plain client, on a cluster of its own.

    Without an option it measures four tenants at once."""
    asked = Asked(
        tenants=_counts("--tenants", tenants or ("" if pods or tree else "4")),
        rate=rate,
        pods=_counts("--pods", pods),
        over=over,
        tree=tree,
        rounds=rounds,
    )
    if rate and (not asked.tenants or min(asked.tenants) <= 10 * FEW):
        raise BadTenantOption(f"--rate: say how many come with --tenants, more than {10 * FEW}")
    with temporary_cluster("bench", simulated_nodes=1) as cluster:
        put_old_objects_aside()  # who measures holds all tenants, too
        try:
            figures = uvloop.run(_measure(cluster, asked))
        except NotMeasured as error:
            raise BadTenantOption(f"not measured: {error}") from error
    finish("tenancy", figures)


def _counts(option: str, text: str) -> tuple[int, ...]:
    """Numbers with commas."""
    if not text:
        return ()
    found = [each.strip() for each in text.split(",")]
    for each in found:
        if not each.isdecimal() or not 1 <= int(each) <= MOST:
            raise BadTenantOption(f"{option} {each!r}: write numbers from 1 to {MOST}, with commas")
    return tuple(int(each) for each in found)


async def _measure(cluster: LocalCluster, asked: Asked) -> dict[str, Any]:
    async with cluster.client() as client:
        await install_domains(client, DOMAINS, cluster_kinds(DOMAINS))
        async with running_platform(cluster, gateway=False) as platform:
            return await measure(Stage(client, cluster, platform, _say), asked)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
