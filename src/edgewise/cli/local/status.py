"""`edgewise local status`: a live table at a terminal, one look elsewhere."""

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from edgewise.cli.local.choice import AsJson, Name, chosen
from edgewise.cli.terminal import drawing_console, harmless
from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster
from edgewise.local.status import PATIENCE, LocalClusterStatus, PlaceStatus, observe

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Column, Table

_EVERY = 1.0
# The table is to go on, and says meanwhile what does not answer.
_LIVE_PATIENCE = 3.0
# A table of hundreds of simulated nodes tells less than their number.
_MOST_NODES = 12
_ALL_OF_IT = 1000
_NAMES = 40


def status(
    name: Name = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, also at a terminal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Components, nodes, pods, memory of one cluster, or of all. Ends with Ctrl-C."""
    found, troubles = ([chosen(name)], {}) if name is not None else clusters.look_around()
    if not found and not troubles:
        chosen(name)  # says what to do
    live = sys.stdout.isatty() and not once and not as_json
    if as_json:
        seen = asyncio.run(observe_all(found))
        bad = [{"name": each, "trouble": why, "ready": False} for each, why in troubles.items()]
        print(msgspec.json.encode([*seen, *bad] if name is None else seen[0]).decode())
    elif not live:
        show_once(asyncio.run(observe_all(found)))
    for each, why in troubles.items() if not as_json else ():
        print(f"{each}  unreadable  {why}", flush=True)
    if live:
        show_live(found)
    raise typer.Exit(1 if troubles else 0)


async def observe_all(
    found: list[LocalCluster], patience: float = PATIENCE
) -> list[LocalClusterStatus]:
    return list(await asyncio.gather(*(observe(cluster, patience) for cluster in found)))


def show_once(seen: list[LocalClusterStatus]) -> None:
    console = wide_enough()
    for each in seen:
        console.print(drawn(each))


def show_live(found: list[LocalCluster]) -> None:
    from rich.console import Group  # noqa: PLC0415 - slow to import
    from rich.live import Live  # noqa: PLC0415

    with Live(console=wide_enough(), auto_refresh=False) as live:
        while found:
            seen = asyncio.run(observe_all(found, _LIVE_PATIENCE))
            live.update(Group(*(drawn(each) for each in seen)), refresh=True)
            time.sleep(_EVERY)
            found = [cluster for cluster in found if cluster.home.exists()]


def wide_enough() -> "Console":
    """Nothing is cut for whoever reads a pipe or a file, and no name at a terminal."""
    if not sys.stdout.isatty():
        return drawing_console(width=_ALL_OF_IT)
    return drawing_console(width=max(_NAMES, drawing_console().width))


def drawn(seen: LocalClusterStatus) -> "Group":
    from rich.console import Group  # noqa: PLC0415 - slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    head = Text.assemble(
        (seen.name, "bold"),
        "  ",
        ("ready", "green") if seen.ready else ("not ready", "red"),
        f"  {seen.region}  {seen.server}  {mebibytes(seen.memory)}",
        ("  cut off", "red") if seen.cut else "",
        f"  joined to {', '.join(seen.peers)}" if seen.peers else "",
    )
    components = Table(
        named("component"), "state", "process", "age", "memory", "restarts", box=None
    )
    for part in seen.components:
        components.add_row(
            part.name,
            Text(part.state, style="" if part.state == "running" else "red"),
            str(part.pid or "-"),
            age(part.seconds),
            mebibytes(part.memory),
            str(part.restarts),
        )
    nodes = Table(named("node"), "kind", "state", "pods", "memory", box=None)
    for node in seen.nodes[:_MOST_NODES]:
        state = "cut off" if node.cut else "ready" if node.ready else "not ready"
        nodes.add_row(
            node.name,
            node.kind,
            Text(state, style="" if state == "ready" else "red"),
            str(node.pods),
            mebibytes(node.memory) if node.memory is not None else "-",
        )
    rest = seen.nodes[_MOST_NODES:]
    if rest:
        ready = sum(node.ready for node in rest)
        nodes.add_row(
            f"and {len(rest)} more", "", f"{ready} ready", str(sum(n.pods for n in rest)), ""
        )
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(seen.pods.items()))
    pods = "unknown" if seen.trouble else counts or "none"
    tail: list[RenderableType] = [Text(f"pods: {pods}"), Text()]
    if seen.trouble:
        tail.insert(0, Text(harmless(seen.trouble), style="red"))
    if seen.places:
        tail[:0] = [Text(), places_table(seen.places)]
    return Group(head, components, Text(), nodes, *tail)


def places_table(places: list[PlaceStatus]) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - slow to import

    table = Table(named("place"), "address", "one way to", box=None)
    for place in places:
        away = [f"{node} {delay}" for node, delay in place.latency.items()]
        more = [f"and {len(away) - _MOST_NODES} more"] if len(away) > _MOST_NODES else []
        table.add_row(place.name, place.address, ", ".join(away[:_MOST_NODES] + more))
    return table


def named(title: str) -> "Column":
    """The one column that is never cut: without a name, the rest says nothing."""
    from rich.table import Column  # noqa: PLC0415 - slow to import

    return Column(title, no_wrap=True, overflow="ignore")


def mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


def age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
