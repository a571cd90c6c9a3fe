"""`edgewise bench`: measurements, with JSON as the last line of the output.

Progress goes to standard error. The exit code says whether it was measured, not whether a
bar was met.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from edgewise.bench.runtime.bench import RuntimeBench
from edgewise.cli.bench.storing import begin, finish
from edgewise.cli.numbers import countable
from edgewise.kube.config import load_access
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()


@app.callback()
def bench() -> None:
    """Measure, and print JSON as the last line."""
    begin()


@app.command()
def runtime(
    objects: Annotated[int, typer.Option(min=1, help="Objects that the controller cares for.")] = (
        10_000
    ),
    rate: Annotated[
        float, typer.Option(min=0.1, callback=countable, help="Changes a second.")
    ] = 200.0,
    seconds: Annotated[
        float, typer.Option(min=1, callback=countable, help="How long to change them.")
    ] = 30.0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Measure there, rather than on a simulated cluster made for it."),
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in that kubeconfig.")] = None,
) -> None:
    """Cost of the controller runtime. A field is copied from spec to status, over many objects."""
    if context is not None and kubeconfig is None:
        raise typer.BadParameter("name the kubeconfig too", param_hint="--context")
    with a_cluster(kubeconfig) as config:
        load_access(config, context)  # what is wrong with it is said before anything is made
        bench = RuntimeBench(config, context or "", objects, rate, seconds, tell)
        figures = uvloop.run(bench.run())
    finish("runtime", figures)


@contextlib.contextmanager
def a_cluster(kubeconfig: Path | None) -> Iterator[Path]:
    if kubeconfig is not None:
        yield kubeconfig
        return
    tell("starting a simulated cluster")
    # Kubernetes' own controllers would follow every change of every object, on the same cores.
    with temporary_cluster("bench", controllers=False) as cluster:
        yield cluster.kubeconfig


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
