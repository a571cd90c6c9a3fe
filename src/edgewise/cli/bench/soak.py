"""`edgewise bench soak`: people and trouble for a while, then whether all is well."""

import asyncio
import sys
from typing import Annotated

import typer

from edgewise.bench.soak.plan import planned
from edgewise.bench.soak.soak import Soak, Stage
from edgewise.cli.bench.join import with_platform
from edgewise.cli.bench.storing import finish
from edgewise.cli.numbers import countable
from edgewise.cli.progress import shown_progress
from edgewise.kube.client import Client
from edgewise.local.images.building import PYTHON_IMAGE, python_image
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.session_checker import look, violations

app = typer.Typer()

LONGEST_MINUTES = 7 * 24 * 60


@app.command()
def soak(
    minutes: Annotated[
        float, typer.Option(callback=countable, help="How long; weighing comes on top.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of what happens, and when.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Real nodes of the cluster.")] = 2,
) -> None:
    """Let clients come and go while pods, nodes, operator, gateway and API server are killed.

    Then every client has to be where it belongs, nothing may be left over, and no program may
    have grown.
    """
    if not 0.5 <= minutes <= LONGEST_MINUTES:
        raise typer.BadParameter("say half a minute, up to a week", param_hint="--minutes")
    acts = planned(seed, minutes * 60)
    running: list[Soak] = []

    async def measure() -> None:
        async with with_platform(cluster, gateway=True) as (client, platform):
            assert platform.gateway is not None  # noqa: S101 - it was asked for
            stage = Stage(cluster, client, platform, platform.gateway, PYTHON_IMAGE)
            running.append(Soak(stage, acts, wrong, tell))
            await running[0].run()

    with shown_progress() as progress:
        python_image(progress)
    try:
        with temporary_cluster("bench", nodes=nodes) as cluster:
            tell(f"seed {seed}: {sum(len(act.steps) for act in acts)} steps in {minutes:g} min")
            asyncio.run(measure())
    finally:
        # Also after Ctrl-C: what happened so far is worth keeping, and says that it is not all.
        if running:
            finish("soak", {"seed": seed, "minutes": minutes, **running[0].figures()})


async def wrong(client: Client, namespace: str, now: float) -> list[str]:
    return violations(await look(client, namespace), now)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
