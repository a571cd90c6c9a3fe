"""`edgewise bench join`: how long a client waits for its server."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from edgewise.bench.sessions.join import JoinBench
from edgewise.bench.sessions.scale import Scale, ScaleBench
from edgewise.bench.sessions.trouble import TroubleBench
from edgewise.bench.sessions.webrtc import WebrtcBench
from edgewise.bench.sessions.webrtc import template as webrtc_template
from edgewise.bench.sessions.webrtc_sample import check_sample
from edgewise.bench.sessions.webrtc_stage import webrtc_stage
from edgewise.cli.bench.storing import finish
from edgewise.cli.numbers import MOST, countable
from edgewise.cli.progress import shown_progress
from edgewise.domain import install_domains
from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE, python_image
from edgewise.local.platform import Platform, running_platform
from edgewise.sessions.domain import SESSIONS
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

PODS_PER_NODE = 110


class Workload(StrEnum):
    PLAIN = "plain"
    WEBRTC = "webrtc"


@app.command()
def join(
    workload: Annotated[
        Workload,
        typer.Option(help="The smallest server, or the WebRTC sample with its client and TURN."),
    ] = Workload.PLAIN,
    rounds: Annotated[int, typer.Option(min=1, help="How often each way is measured.")] = 20,
    nodes: Annotated[int, typer.Option(min=1, help="Real nodes of the cluster.")] = 1,
    trouble: Annotated[
        bool, typer.Option(help="Measure recovery beside trouble too: as many rounds more.")
    ] = True,
    at_once: Annotated[
        int, typer.Option(min=0, help="WebRTC: clients that come at once, after the rounds.")
    ] = 20,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Many sessions on simulated nodes instead.")
    ] = False,
    sessions: Annotated[int, typer.Option(min=1, help="Simulated: sessions.")] = 100,
    clients: Annotated[int, typer.Option(min=0, help="Simulated: clients in all of them.")] = 500,
    seats: Annotated[int, typer.Option(min=0, help="Simulated: clients of one pod.")] = 10,
    warm: Annotated[
        bool, typer.Option("--warm", help="Simulated: each join takes a warm pod of its own.")
    ] = False,
    rate: Annotated[
        str, typer.Option(help="Simulated: joins a second, or 'max' for as many as possible.")
    ] = "50",
    seconds: Annotated[
        float, typer.Option(min=1, callback=countable, help="Simulated: how long to join.")
    ] = 20.0,
    gateway: Annotated[
        bool, typer.Option(help="Simulated: with a real gateway that acknowledges routes.")
    ] = False,
) -> None:
    """Measure joins beside bare pods, in one run on a cluster of its own."""
    if workload is Workload.WEBRTC:
        if simulated:
            raise typer.BadParameter(
                "simulated nodes run no WebRTC server", param_hint="--workload"
            )
        figures = with_webrtc(rounds, nodes, at_once)
    elif simulated:
        scale = Scale(
            sessions=sessions,
            clients=clients,
            seats=1 if warm else seats,
            rate=parse_rate(rate),
            seconds=seconds,
            warm=warm_pods(parse_rate(rate), seconds) if warm else 0,
        )
        figures = at_scale(scale, gateway=gateway)
    else:
        figures = for_real(rounds, nodes, trouble=trouble)
    finish("join", figures)


def parse_rate(text: str) -> float:
    """Joins a second; 0 stands for as many as possible."""
    if text == "max":
        return 0.0
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= MOST:
        raise typer.BadParameter(
            f"{text!r} is neither a number above 0, up to {MOST:g}, nor 'max'", param_hint="--rate"
        )
    return rate


def warm_pods(rate: float, seconds: float) -> int:
    """Enough that every join finds one; with no rate given, a fixed stock is used up."""
    return int(rate * seconds * 1.2) if rate else 600


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def for_real(rounds: int, nodes: int, *, trouble: bool) -> dict[str, Any]:
    with shown_progress() as progress:
        python_image(progress)
    with temporary_cluster("bench", nodes=nodes) as cluster:

        async def measure() -> dict[str, Any]:
            async with with_platform(cluster, gateway=True) as (client, _):
                figures = await JoinBench(client, PYTHON_IMAGE, tell).run(rounds)
                if trouble:
                    tell("the same recovery, beside trouble in the session")
                    figures["trouble"] = await TroubleBench(client, PYTHON_IMAGE, tell).run(rounds)
                return figures

        return asyncio.run(measure())


def with_webrtc(rounds: int, nodes: int, at_once: int) -> dict[str, Any]:
    check_sample()
    with temporary_cluster("bench", nodes=nodes) as cluster:

        async def measure() -> dict[str, Any]:
            async with webrtc_stage(cluster, webrtc_template(), tell) as stage:
                return await WebrtcBench(stage, tell).run(rounds, at_once)

        return asyncio.run(measure())


def at_scale(scale: Scale, *, gateway: bool) -> dict[str, Any]:
    pods = scale.sessions * max(1, -(-scale.clients // (scale.sessions * (scale.seats or 1))))
    room = pods + 2 * scale.warm + int(scale.rate * scale.seconds)
    nodes = -(-room // PODS_PER_NODE) + 1
    with temporary_cluster("bench", simulated_nodes=nodes) as cluster:

        async def measure() -> dict[str, Any]:
            async with with_platform(cluster, gateway=gateway) as (client, platform):
                return await ScaleBench(client, platform, scale, tell).run()

        return asyncio.run(measure())


@asynccontextmanager
async def with_platform(
    cluster: LocalCluster, *, gateway: bool, inside: bool = False
) -> AsyncIterator[tuple[Client, Platform]]:
    async with cluster.client() as client:
        await install_domains(client, [SESSIONS], SESSIONS.kinds)
        async with running_platform(cluster, gateway=gateway, inside=inside) as platform:
            yield client, platform
