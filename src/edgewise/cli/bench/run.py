"""`edgewise bench run`: one load for several designs, on fresh clusters."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from edgewise.bench.evaluation.evaluation import CaseName, Ground, Variant, run_case
from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.results import RunFolder, about
from edgewise.bench.evaluation.trace import Trace, written
from edgewise.bench.machine_load import MachineLoad
from edgewise.cli.bench.join import with_platform
from edgewise.cli.bench.storing import command_line, machine, results_root
from edgewise.cli.bench.trace import complete_preset, trace_of
from edgewise.cli.numbers import countable
from edgewise.cli.progress import shown_progress
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE, python_image
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

ALL = "all"
# Of a cluster: to start, to remove, and to get the pods ready that a case begins with.
OVERHEAD_SECONDS = 45.0


def complete_case(incomplete: str) -> list[str]:
    return [name for name in (ALL, *CaseName) if name.startswith(incomplete)]


@app.command()
def run(
    case: Annotated[
        list[str],
        typer.Option(
            help=f"{ALL}, or any of {', '.join(CaseName)}; may be repeated.",
            autocompletion=complete_case,
        ),
    ] = [ALL],  # noqa: B006 - typer copies it
    trace: Annotated[
        str, typer.Option(help="A preset or a file.", autocompletion=complete_preset)
    ] = "a",
    seed: Annotated[int, typer.Option(min=0, help="Of a preset.")] = 1,
    speed: Annotated[
        float, typer.Option(callback=countable, help="How many times as fast as in the trace.")
    ] = 1.0,
    warm: Annotated[
        int, typer.Option(min=0, help="Case edgewise: pods that are ready before a client comes.")
    ] = 0,
    reuse_seconds: Annotated[
        int, typer.Option(min=0, help="Case edgewise: how long the pod of who left is kept.")
    ] = 0,
    across: Annotated[
        bool, typer.Option("--across", help="Case edgewise: kept for clients of any session.")
    ] = False,
    clusters: Annotated[
        int, typer.Option(min=1, max=8, help="Clients go to so many clusters in turn.")
    ] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Real nodes of each cluster.")] = 2,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where results are kept; what is there already is not run again."
        ),
    ] = None,
    kubeconfig: Annotated[
        list[Path] | None,
        typer.Option(
            help="Use this cluster, where Edgewise is installed, rather than local ones made for "
            "it; may be repeated."
        ),
    ] = None,
    image: Annotated[str, typer.Option(help="With --kubeconfig: an image that has python3.")] = "",
) -> None:
    """Run a trace against several designs, one after the other, and print what each made of it."""
    if not 0 < speed <= 1000:
        raise typer.BadParameter("say more than 0, up to 1000", param_hint="--speed")
    if kubeconfig and not image:
        raise typer.BadParameter(
            "name an image with python3 that those clusters can pull", param_hint="--image"
        )
    names = cases_of(case)
    load = trace_of(trace, seed)
    variant = Variant(reuse_seconds=reuse_seconds, across=across, warm=warm)
    options: dict[str, Any] = {
        "trace": load.preset,
        "seed": load.seed,
        "speed": speed,
        "clusters": len(kubeconfig) if kubeconfig else clusters,
        "nodes": nodes,
        "warm": warm,
        "reuse_seconds": reuse_seconds,
        "across": across,
    }
    folder = RunFolder(output or results_root() / folder_name(options))
    folder.begin(about("run", command_line(), options), written(load))
    left = [name for name in names if not folder.is_done(name)]
    for name in names:
        if name not in left:
            tell(f"{name}: stored already in {folder.path}")
    grounds = Grounds(kubeconfig or [], clusters, nodes)
    used = image if kubeconfig else PYTHON_IMAGE
    if left and not kubeconfig:
        with shown_progress() as progress:
            python_image(progress)
    for number, name in enumerate(left):
        minutes = (len(left) - number) * (load.seconds / speed + OVERHEAD_SECONDS) / 60
        tell(f"{name}: about {minutes:.0f} min to the end of all cases")
        run_one(name, grounds, folder, load, used, variant, speed)
    print(json.dumps(summary(folder, names) | {"machine": machine()}))


def run_one(
    name: CaseName,
    grounds: "Grounds",
    folder: RunFolder,
    load: Trace,
    image: str,
    variant: Variant,
    speed: float,
) -> None:
    writer = folder.writer(name)
    before, began = MachineLoad.now(), time.monotonic()
    try:

        async def measure(clusters: list[LocalCluster]) -> None:
            async with grounds.entered(name, clusters) as where:
                await run_case(
                    name,
                    where,
                    load,
                    image=image,
                    variant=variant,
                    speed=speed,
                    writer=writer,
                    tell=tell,
                )

        with grounds.made() as clusters:
            asyncio.run(measure(clusters))
    finally:
        writer.close()
    used = before.until(MachineLoad.now())
    tell(
        f"{name}: done in {(time.monotonic() - began) / 60:.1f} min; "
        f"machine {used['busy_percent']} % busy, {used['stolen_percent']} % stolen"
    )


class Grounds:
    """Fresh local clusters for each case, or those that were named."""

    def __init__(self, kubeconfigs: list[Path], clusters: int, nodes: int) -> None:
        self._named = [load_access(each) for each in kubeconfigs]
        self._clusters = clusters
        self._nodes = nodes

    @contextlib.contextmanager
    def made(self) -> Iterator[list[LocalCluster]]:
        with contextlib.ExitStack() as stack:
            wanted = 0 if self._named else self._clusters
            yield [
                stack.enter_context(temporary_cluster("bench", nodes=self._nodes))
                for _ in range(wanted)
            ]

    @contextlib.asynccontextmanager
    async def entered(
        self, name: CaseName, clusters: list[LocalCluster]
    ) -> AsyncIterator[list[Ground]]:
        async with contextlib.AsyncExitStack() as stack:
            grounds = [
                Ground(client=await stack.enter_async_context(Client(access)))
                for access in self._named
            ]
            for cluster in clusters:
                if name is CaseName.EDGEWISE:
                    client, platform = await stack.enter_async_context(
                        with_platform(cluster, gateway=True)
                    )
                    parts = {"operator": platform.operator.pid}
                    if platform.gateway is not None:
                        parts["gateway"] = platform.gateway.pid
                    grounds.append(Ground(client=client, parts=parts))
                else:
                    client = await stack.enter_async_context(cluster.client())
                    grounds.append(Ground(client=client))
            yield grounds


def cases_of(words: list[str]) -> list[CaseName]:
    if ALL in words:
        return list(CaseName)
    found = []
    for word in words:
        try:
            found.append(CaseName(word))
        except ValueError:
            raise typer.BadParameter(
                f"there is no case {word!r}; there are {ALL}, {', '.join(CaseName)}",
                param_hint="--case",
            ) from None
    return list(dict.fromkeys(found))


def folder_name(options: dict[str, Any]) -> str:
    parts = [f"run-{options['trace']}-{options['seed']}", f"x{options['speed']:g}"]
    parts += [f"{options['clusters']}-clusters"] if options["clusters"] > 1 else []
    parts += [f"warm-{options['warm']}"] if options["warm"] else []
    parts += [f"reuse-{options['reuse_seconds']}"] if options["reuse_seconds"] else []
    parts += ["across"] if options["across"] else []
    return "-".join(parts)


def summary(folder: RunFolder, names: list[CaseName]) -> dict[str, Any]:
    return {
        "cases": {name: figures_of(folder.records(name)) for name in names},
        "folder": str(folder.path),
    }


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
