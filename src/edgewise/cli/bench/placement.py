"""`edgewise bench placement`: how long a search takes, what it costs, and whether users notice."""

import asyncio
import sys
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from edgewise.api.placement import LatencyPlacement
from edgewise.bench.machine_load import MachineLoad
from edgewise.bench.placement.bench import CALM_SEARCHES, PlacementBench
from edgewise.bench.placement.figures import Setting, judged
from edgewise.bench.placement.ground import Ground
from edgewise.bench.placement.maps import Map, one_way, round_trips
from edgewise.bench.placement.objects import NAMESPACE, sample
from edgewise.bench.placement.reporting import Reporting
from edgewise.bench.placement.stage import placement_stage
from edgewise.cli.bench.storing import finish
from edgewise.cli.progress import shown_progress
from edgewise.kube.kinds.core import Pod
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE, python_image
from edgewise.runtime.awaiting import watching
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

PLACE = "users"
MOST_SENTINELS = 9


class Part(StrEnum):
    SEARCH = "search"
    PROBE = "probe"
    MOVE = "move"
    SLA = "sla"
    CALM = "calm"


# They measure nodes rather than pods.
PROBING = {Part.PROBE, Part.MOVE}


@app.command()
def placement(
    nodes: Annotated[
        int, typer.Option(min=2, max=10, help="Real nodes; the map says how far each is.")
    ] = 10,
    sentinels: Annotated[
        str, typer.Option(help="Numbers of sentinels to search with, one after the other.")
    ] = "1,2,3,4",
    repeat: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 10,
    distances: Annotated[
        Map, typer.Option("--map", help="Distances of the users from the nodes.")
    ] = Map.TABLE3,
    part: Annotated[
        list[Part] | None, typer.Option(help="Only this part. May be repeated. [default: all]")
    ] = None,
    calm_searches: Annotated[
        int, typer.Option(min=1, help="Searches under noise, one every 40 seconds and more.")
    ] = CALM_SEARCHES,
) -> None:
    """Measure searches on real nodes, with users in a place as far from each as the map says."""
    counts = parse_sentinels(sentinels, nodes)
    delays = one_way(distances, nodes)
    sample()
    with shown_progress() as progress:
        python_image(progress)
    with temporary_cluster("bench", nodes=nodes, places={PLACE: delays}) as cluster:
        setting = Setting(nodes=cluster.spec.node_names, round_trips=round_trips(distances, nodes))
        measure = measured(cluster, setting, counts, repeat, part or list(Part), calm_searches)
        figures = asyncio.run(measure)
    finish("placement", {"nodes": nodes, "map": distances.value} | figures)


def parse_sentinels(text: str, nodes: int) -> list[int]:
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= count <= min(nodes - 1, MOST_SENTINELS) for count in counts):
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers from 1 to {nodes - 1}, such as 1,2,3",
            param_hint="--sentinels",
        )
    return counts


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def measured(
    cluster: LocalCluster,
    setting: Setting,
    counts: list[int],
    repeat: int,
    parts: list[Part],
    calm_searches: int,
) -> dict[str, Any]:
    before = MachineLoad.now()
    async with (
        placement_stage(cluster, ping=bool(PROBING & set(parts))) as (client, access),
        watching(client, Pod, EndpointSlice, LatencyPlacement) as (pods, slices, placements),
    ):
        ground = Ground(client, cluster, PLACE, PYTHON_IMAGE, (pods, slices, placements))
        reporting = Reporting(client, access, cluster, NAMESPACE)
        bench = PlacementBench(
            ground,
            setting,
            list(cluster.spec.places[PLACE].values()),
            partial(reporting.at, PLACE),
            tell,
        )
        figures: dict[str, Any] = {}
        if Part.SEARCH in parts:
            figures |= await bench.searches(counts, repeat)
        if Part.PROBE in parts:
            figures |= await bench.probe(repeat)
        if Part.MOVE in parts:
            figures |= await bench.user_moves(repeat)
        if Part.SLA in parts:
            figures |= await bench.sla(repeat, figures)
        if Part.CALM in parts:
            figures |= await bench.calm(calm_searches)
    return figures | {"bars": judged(figures), "machine": before.until(MachineLoad.now())}
