"""`edgewise bench run`: one load for several designs, on fresh clusters."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from edgewise.bench.evaluation.choosing import Choose
from edgewise.bench.evaluation.evaluation import CaseName, Ground, Variant, run_case
from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.report.chapters import number
from edgewise.bench.evaluation.report.page import page
from edgewise.bench.evaluation.report.run_chapter import run_chapter
from edgewise.bench.evaluation.results import RunFolder, about
from edgewise.bench.evaluation.trace import Trace, written
from edgewise.bench.evaluation.workloads.http import HttpWorkload
from edgewise.bench.evaluation.workloads.webrtc import FILMING, WebrtcWorkload
from edgewise.bench.evaluation.workloads.workload import Workload
from edgewise.bench.sessions.webrtc_films import films
from edgewise.bench.sessions.webrtc_sample import check_sample
from edgewise.bench.sessions.webrtc_stage import load_images, start_turn
from edgewise.cli.bench.join import with_platform
from edgewise.cli.bench.storing import command_line, machine, results_root
from edgewise.cli.bench.trace import complete_preset, trace_of
from edgewise.cli.errors import sentence
from edgewise.cli.numbers import countable
from edgewise.cli.progress import shown_progress
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import BadSpec
from edgewise.local.faults import main_processes
from edgewise.local.images.building import PYTHON_IMAGE, python_image
from edgewise.local.network.delay import milliseconds
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()


class WorkloadName(StrEnum):
    HTTP = "http"
    WEBRTC = "webrtc"


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
    workload: Annotated[
        WorkloadName,
        typer.Option(help="The lightest server, or the WebRTC sample with its client and TURN."),
    ] = WorkloadName.HTTP,
    speed: Annotated[
        float, typer.Option(callback=countable, help="How many times as fast as in the trace.")
    ] = 1.0,
    warm: Annotated[
        int, typer.Option(min=0, help="Case edgewise: pods that are ready before a client comes.")
    ] = 0,
    reuse_seconds: Annotated[
        int,
        typer.Option(
            min=0,
            help="Case edgewise: how long the pod of a client that left is kept, in "
            "seconds of the trace.",
        ),
    ] = 0,
    across: Annotated[
        bool, typer.Option("--across", help="Case edgewise: kept for clients of any session.")
    ] = False,
    clusters: Annotated[
        int, typer.Option(min=1, max=8, help="Clients are spread over so many clusters.")
    ] = 1,
    choose: Annotated[
        Choose,
        typer.Option(help="Clients go to the clusters in turn, or to those that are nearest."),
    ] = Choose.TURN,
    away: Annotated[
        str,
        typer.Option(
            metavar="MS,…",
            help="How far each local cluster is from the clients, in milliseconds one way.",
        ),
    ] = "",
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
    if workload is WorkloadName.WEBRTC:
        if kubeconfig:
            raise typer.BadParameter(
                "the WebRTC sample's images and coturn are put into local clusters only",
                param_hint="--workload",
            )
        check_sample()
    distances = distances_of(away, clusters, bool(kubeconfig))
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
        "workload": workload.value,
    }
    # Only where they were asked for, so that what was stored before can be gone on with.
    options |= {"choose": choose.value} if choose is not Choose.TURN else {}
    options |= {"away": distances} if any(distances) else {}
    folder = RunFolder(output or results_root() / folder_name(options))
    folder.begin(about("run", command_line(), options), written(load))
    left = [name for name in names if not folder.is_done(name)]
    for name in names:
        if name not in left:
            tell(f"{name}: stored already in {folder.path}")
    grounds = Grounds(kubeconfig or [], distances, nodes, workload, image or PYTHON_IMAGE)
    if left and workload is WorkloadName.HTTP and not kubeconfig:
        with shown_progress() as progress:
            python_image(progress)
    for done, name in enumerate(left):
        minutes = (len(left) - done) * (load.seconds / speed + OVERHEAD_SECONDS) / 60
        tell(f"{name}: about {minutes:.0f} min to the end of all cases")
        run_one(name, grounds, folder, load, variant, speed, choose)
    for line in in_columns(folder, names):
        tell(line)
    told = summary(folder, names) | {"report": drawn(folder), "machine": machine()}
    print(json.dumps(told))


def run_one(
    name: CaseName,
    grounds: "Grounds",
    folder: RunFolder,
    load: Trace,
    variant: Variant,
    speed: float,
    choose: Choose,
) -> None:
    writer = folder.writer(name)
    began = time.monotonic()
    try:

        async def measure(clusters: list[LocalCluster]) -> dict[str, float]:
            async with grounds.entered(name, clusters) as where:
                return await run_case(
                    name,
                    where,
                    load,
                    variant=variant,
                    speed=speed,
                    choose=choose,
                    writer=writer,
                    tell=tell,
                    command=command_line(),
                )

        with grounds.made() as clusters:
            used = asyncio.run(measure(clusters))
    finally:
        writer.close()
    tell(
        f"{name}: done in {(time.monotonic() - began) / 60:.1f} min; "
        f"machine {used['busy_percent']} % busy, {used['stolen_percent']} % stolen"
    )


class Grounds:
    """Fresh local clusters for each case, or those that were named."""

    def __init__(
        self,
        kubeconfigs: list[Path],
        away: list[float],
        nodes: int,
        workload: WorkloadName,
        image: str,
    ) -> None:
        self._named = [load_access(each) for each in kubeconfigs]
        self._away = away
        self._nodes = nodes
        self._workload = workload
        self._image = image

    @contextlib.contextmanager
    def made(self) -> Iterator[list[LocalCluster]]:
        with contextlib.ExitStack() as stack:
            wanted = [] if self._named else self._away
            yield [
                stack.enter_context(
                    temporary_cluster("bench", nodes=self._nodes, host_latency=each)
                )
                for each in wanted
            ]

    @contextlib.asynccontextmanager
    async def entered(
        self, name: CaseName, clusters: list[LocalCluster]
    ) -> AsyncIterator[list[Ground]]:
        async with contextlib.AsyncExitStack() as stack:
            light = HttpWorkload(self._image)
            grounds = [
                Ground(client=await stack.enter_async_context(Client(access)), workload=light)
                for access in self._named
            ]
            filming = None
            if self._workload is WorkloadName.WEBRTC:
                filming = await stack.enter_async_context(films(FILMING))
            for cluster in clusters:
                parts = {"api-server": main_processes(cluster)["kube-apiserver"].pid}
                if name is CaseName.EDGEWISE:
                    client, platform = await stack.enter_async_context(
                        with_platform(cluster, gateway=True, inside=any(self._away))
                    )
                    parts["operator"] = platform.operator.pid
                    if platform.gateway is not None:
                        parts["gateway"] = platform.gateway.pid
                else:
                    client = await stack.enter_async_context(cluster.client())
                used: Workload = light
                if filming is not None:
                    await load_images(cluster, tell)
                    used = WebrtcWorkload(client, filming, await start_turn(cluster, client))
                grounds.append(Ground(client=client, workload=used, parts=parts))
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


def distances_of(text: str, clusters: int, named: bool) -> list[float]:
    """Of each local cluster."""
    if not text:
        return [0.0] * clusters
    if named:
        raise typer.BadParameter(
            "the clusters of a kubeconfig are where they are", param_hint="--away"
        )
    try:
        found = [milliseconds(f"{each.strip()}ms") for each in text.split(",")]
    except BadSpec as error:
        raise typer.BadParameter(str(error), param_hint="--away") from None
    if len(found) != clusters:
        raise typer.BadParameter(
            f"{len(found)} distances for {clusters} clusters: say one for each",
            param_hint="--away",
        )
    return found


def folder_name(options: dict[str, Any]) -> str:
    parts = [f"run-{options['trace']}-{options['seed']}", f"x{options['speed']:g}"]
    parts += [options["workload"]] if options["workload"] != WorkloadName.HTTP else []
    parts += [f"{options['clusters']}-clusters"] if options["clusters"] > 1 else []
    if away := options.get("away"):
        parts.append("-".join(["away", *(f"{each:g}" for each in away)]))
    parts += ["by-latency"] if options.get("choose") else []
    parts += [f"warm-{options['warm']}"] if options["warm"] else []
    parts += [f"reuse-{options['reuse_seconds']}"] if options["reuse_seconds"] else []
    parts += ["across"] if options["across"] else []
    return "-".join(parts)


def summary(folder: RunFolder, names: list[CaseName]) -> dict[str, Any]:
    return {
        "cases": {name: figures_of(folder.records(name)) for name in names},
        "folder": str(folder.path),
    }


def in_columns(folder: RunFolder, names: list[CaseName]) -> Iterator[str]:
    """The same for people, as far as it fits a terminal."""
    head = ("seconds", "clients", "p50", "p80", "p95", "max", "back", "p50", "max", "failed", "MB")
    rows: list[tuple[str, ...]] = [head]
    for name in names:
        found = figures_of(folder.records(name))
        connect, recover = found["connect_s"], found["recover_s"]
        rows.append(
            (
                name,
                str(connect["n"]),
                *(number(connect.get(share)) for share in ("p50", "p80", "p95", "max")),
                str(recover["n"]),
                *(number(recover.get(share)) for share in ("p50", "max")),
                str(connect["failed"] + recover["failed"]),
                number(found["memory_mb"].get("mean")),
            )
        )
    for first, *rest in rows:
        yield f"{first:<19}" + "".join(f"{each:>8}" for each in rest)


def drawn(folder: RunFolder) -> str:
    """The page of this run; what was measured is told without it, too."""
    target = folder.path / "report.html"
    try:
        target.write_text(page([("Cases side by side", [run_chapter(folder)])]))
    except (ModuleNotFoundError, OSError) as error:
        tell(f"no report: {sentence(error)}")
        return ""
    return str(target)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
