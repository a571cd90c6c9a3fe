"""`edgewise demo tenancy`: two tenants that do not trust each other, on real nodes."""

import contextlib

import typer

from edgewise.cli.demo.own_cluster import on_own_cluster
from edgewise.cli.demo.stage import Stage
from edgewise.cli.demo.tenancy.people import People
from edgewise.cli.demo.tenancy.play import ACTS, Play
from edgewise.cli.progress import shown_progress
from edgewise.domain import install_domains
from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.platform import running_platform
from edgewise.tenancy.domain import TENANCY

CLUSTER = "tenancy"
NODES = 2

app = typer.Typer()


@app.command()
def demo() -> None:
    """Start a cluster with two tenants, and show what each has for itself."""
    on_own_cluster(CLUSTER, show)


async def show(name: str) -> None:
    stage = Stage(acts=ACTS)
    print("Edgewise: tenants share a cluster, and neither packets nor pods of one reach another.\n")
    cluster = await start(stage, name)
    async with contextlib.AsyncExitStack() as stack:
        admin = await stack.enter_async_context(cluster.client())
        await install_domains(admin, [TENANCY], TENANCY.kinds)
        await stack.enter_async_context(running_platform(cluster, gateway=False, inside=True))
        stage.say(f"policies, roles and the operator are there after {stage.elapsed:.0f} s")
        await Play(stage, admin, People(cluster, stack)).run()
    print(f"\nAll of it worked, in {stage.elapsed:.0f} s.")
    print(AFTERWARDS)


AFTERWARDS = """
Try next:
  docs/tutorial/first-tenant.md              a tenant of your own, step by step
  .venv/bin/edgewise tenant doctor           whether your own cluster keeps tenants apart"""


async def start(stage: Stage, name: str) -> LocalCluster:
    stage.act(f"A cluster of {NODES} real nodes, which enforces NetworkPolicy")
    spec = LocalClusterSpec(name=name, nodes=NODES)
    with shown_progress() as progress:
        return await clusters.bring_up(spec, tell=progress)
