"""`edgewise local fault`: break a running cluster on purpose."""

from typing import Annotated

import typer

from edgewise.cli.local.choice import Name, chosen, component_completion, distance_completion
from edgewise.local import faults
from edgewise.local.errors import LocalError
from edgewise.local.places import change_latency

app = typer.Typer(
    help="Break a running cluster on purpose. Ends, pauses and restarts programs, cuts cables, "
    "changes distances.",
    no_args_is_help=True,
)

Component = Annotated[
    str,
    typer.Argument(
        help="Such as etcd, local-1/kubelet, local-1 (the whole node) or manager.",
        autocompletion=component_completion,
    ),
]
Node = Annotated[str | None, typer.Option(help="The cable of this node to all others.")]
Whole = Annotated[
    bool, typer.Option("--cluster", help="The cable of the cluster to host and other clusters.")
]


@app.command()
def kill(component: Component, name: Name = None) -> None:
    """End it without warning; it is started again."""
    process = faults.kill(chosen(name), component)
    print(f"killed {component} (process {process.pid})")


@app.command()
def restart(component: Component, name: Name = None) -> None:
    """Ask it to end, and wait until it runs again."""
    faults.restart(chosen(name), component)
    print(f"restarted {component}")


@app.command()
def pause(component: Component, name: Name = None) -> None:
    """Stop it where it is, until `resume`."""
    faults.pause(chosen(name), component)
    print(f"paused {component}")


@app.command()
def resume(component: Component, name: Name = None) -> None:
    """Let it go on."""
    paused = faults.resume(chosen(name), component)
    print(f"resumed {component}" if paused else f"{component} was not paused")


@app.command()
def cut(node: Node = None, cluster: Whole = False, name: Name = None) -> None:
    """Cut a cable, until `heal`."""
    what = which(node, whole=cluster, to="cut")
    faults.cut(chosen(name), what)
    print(f"cut off {node or 'the cluster'}")


@app.command()
def heal(node: Node = None, cluster: Whole = False, name: Name = None) -> None:
    """Mend a cable that was cut."""
    what = which(node, whole=cluster, to="mend")
    faults.heal(chosen(name), what)
    print(f"mended the cable of {node or 'the cluster'}")


@app.command()
def latency(
    distance: Annotated[
        list[str],
        typer.Argument(
            help="Such as rome:local-1=80ms, one way, or with jitter rome:local-1=80ms±5ms.",
            autocompletion=distance_completion,
        ),
    ],
    name: Name = None,
) -> None:
    """Move a place away from a node, or nearer, while both run."""
    change_latency(chosen(name), distance)
    print(f"from now on {', '.join(distance)}")


def which(node: str | None, *, whole: bool, to: str) -> str | None:
    if whole == (node is not None):
        raise LocalError(f"choose what to {to}: --node NAME, or --cluster")
    return node
