"""`edgewise demo games`: a cluster with a game on it, from nothing to gone."""

import asyncio
import time

import typer

from edgewise.cli.demo.games.play import NAMESPACE, Play
from edgewise.cli.demo.games.sample import check_sample, image
from edgewise.cli.demo.own_cluster import on_own_cluster
from edgewise.cli.demo.stage import Stage
from edgewise.cli.progress import shown_progress
from edgewise.domain import cluster_kinds, install_domains
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.kinds.core import Namespace
from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.images.building import build_app
from edgewise.local.images.load import load, nodes_of
from edgewise.local.platform import running_platform
from edgewise.operator import DOMAINS

app = typer.Typer()

CLUSTER = "games"


@app.command()
def demo() -> None:
    """Start a cluster, play a game on it while its version changes, and take it all down again."""
    check_sample()
    on_own_cluster(CLUSTER, show)


async def show(name: str) -> None:
    """The acts, in order; any that fails ends the demo with a sentence."""
    stage = Stage(acts=7)
    print("Edgewise: game servers say themselves when they may go, and nobody is cut off.\n")
    cluster = await start(stage, name)
    async with running_platform(cluster, gateway=False), cluster.client() as client:
        await Play(stage, client).run()
    print(f"\nAll of it worked, in {stage.elapsed:.0f} s.")
    print(AFTERWARDS)


async def start(stage: Stage, name: str) -> LocalCluster:
    stage.act("A cluster with one real node, and an operator")
    began = time.monotonic()
    with shown_progress() as progress:
        archive = build_app(image(), progress).archive
        cluster = await clusters.bring_up(LocalClusterSpec(name=name, nodes=1), tell=progress)
        await asyncio.to_thread(load, archive, nodes_of([cluster]), progress=progress)
    async with cluster.client() as client:
        await install_domains(client, DOMAINS, cluster_kinds(DOMAINS))
        await client.create(Namespace.named(NAMESPACE))
        version = await client.version()
    kinds = len(GAMESERVERS.kinds)
    took = time.monotonic() - began
    stage.say(f"Kubernetes {version} with {kinds} kinds of games, ready after {took:.1f} s")
    return cluster


AFTERWARDS = """
Try next:
  docs/tutorial/first-game.md                this game on a cluster of your own, step by step
  .venv/bin/edgewise game --help             what a person at a shell can do"""
