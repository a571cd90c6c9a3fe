"""`edgewise local platform`: operator and gateway beside a local cluster, in the background."""

import asyncio
import time
from collections import Counter
from typing import Annotated

import aiohttp
import typer

from edgewise.cli.interruption import uninterrupted
from edgewise.cli.local.choice import Name, chosen
from edgewise.domain import all_kinds, install_domains, program_commands
from edgewise.local import kept_platform, manager, progress
from edgewise.local.clusters import LocalCluster
from edgewise.local.component import CONTROL_PLANE
from edgewise.local.errors import LocalError
from edgewise.local.kept_platform import KeptPlatform
from edgewise.local.machines import processes
from edgewise.local.machines.supervision import last_words
from edgewise.local.platform import answers, new_site
from edgewise.operator import DOMAINS

app = typer.Typer()

PATIENCE = 90.0
LOOK_EVERY = 0.05
# A program that ends this often while it is waited for will not come up.
TOO_OFTEN = 3


@app.command()
def platform(
    name: Name = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until Ctrl-C instead of going on alone.")
    ] = False,
) -> None:
    """Run operator and gateway for a local cluster, until it is taken down.

    Twice is fine. Both run on this machine, so the cluster needs no image of them. Like every
    program of the cluster they are started again when they end, and `status`, `logs` and
    `fault` know them.
    """
    cluster = chosen(name)
    asyncio.run(prepare(cluster))
    new = kept_platform.want(
        cluster.home,
        new_site(cluster),
        gateway=cluster.spec.real,
        others=program_commands(DOMAINS),
        inside=CONTROL_PLANE if cluster.spec.real else "",
    )
    try:
        kept = asyncio.run(until_ready(cluster))
        state = "is ready" if new else "is running already"
        where = f": one entry point at {kept.site.public_url}" if kept.gateway else ""
        print(f"the platform of cluster {cluster.name} {state}{where}", flush=True)
        while new and foreground and cluster.home.exists():
            time.sleep(1)
    except BaseException:
        if new:  # nothing half-made stays, and in the foreground it ends with us
            with uninterrupted():
                stop(cluster)
        raise


async def prepare(cluster: LocalCluster) -> None:
    async with cluster.client() as client:
        await install_domains(client, DOMAINS, all_kinds(DOMAINS))
    await asyncio.to_thread(manager.ensure, cluster.home)


async def until_ready(cluster: LocalCluster) -> KeptPlatform:
    """Until each of its programs says that it is."""
    kept = kept_platform.wanted(cluster.home)
    if kept is None:
        raise LocalError(f"the platform of cluster {cluster.name!r} was stopped meanwhile")
    events = progress.Reader(cluster.home.progress, from_end=True)
    deaths: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
        for program in kept.programs():
            while not await answers(http, kept.site.health_of(program)):
                deaths.update(e.what for e in events.new() if e.state == progress.ENDED)
                if deaths[program] >= TOO_OFTEN or time.monotonic() > deadline:
                    raise trouble_of(cluster, program, often=deaths[program] >= TOO_OFTEN)
                await asyncio.sleep(LOOK_EVERY)
    return kept


def trouble_of(cluster: LocalCluster, program: str, *, often: bool) -> LocalError:
    what = "keeps ending" if often else f"is not ready after {PATIENCE:.0f} s"
    said = last_words(cluster.home.logs, program) or "its log says nothing"
    return LocalError(
        f"the {program} of cluster {cluster.name!r} {what}: {said.removeprefix('edgewise: ')}; "
        f"see `edgewise local logs --name {cluster.name} {program}`"
    )


def stop(cluster: LocalCluster) -> None:
    """Take it back, and see the manager end it."""
    names = {part.name for part in kept_platform.components(cluster.home)}
    kept_platform.forget(cluster.home)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(
        process.component in names for process in processes.of_cluster(cluster.home.path)
    ):
        time.sleep(LOOK_EVERY)
