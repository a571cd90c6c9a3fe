"""`edgewise local`: real Kubernetes clusters on this machine."""

import json
import shlex
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from edgewise.cli.interruption import uninterrupted
from edgewise.cli.local import fault as local_fault
from edgewise.cli.local import status as local_status
from edgewise.cli.local.choice import (
    AsJson,
    Name,
    chosen,
    cluster_completion,
    component_completion,
    kubeconfig_of,
)
from edgewise.cli.progress import shown_progress
from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.component import log_file
from edgewise.local.control_plane.authentication import read_authentication
from edgewise.local.control_plane.kubeconfigs import merge, user_kubeconfig
from edgewise.local.doctor import examine, real_nodes_trouble
from edgewise.local.errors import LocalError
from edgewise.local.faults import component_names
from edgewise.local.layout import Home, homes
from edgewise.local.leftovers import sweep
from edgewise.local.network.delay import milliseconds
from edgewise.local.network.joining import connect as join
from edgewise.local.network.joining import disconnect as part
from edgewise.local.network.latency import sorted_latencies
from edgewise.local.spec import check_name

app = typer.Typer(help="Run real Kubernetes clusters on this machine.", no_args_is_help=True)
app.add_typer(local_fault.app, name="fault")
app.command("status")(local_status.status)

DEFAULT_NAME = "local"
One = Annotated[str, typer.Argument(autocompletion=cluster_completion)]
Other = Annotated[str, typer.Argument(autocompletion=cluster_completion)]


@app.command()
def up(
    name: Annotated[str, typer.Option(help="What the cluster is called.")] = DEFAULT_NAME,
    nodes: Annotated[
        int | None, typer.Option(help="Real nodes. [default: 1, or 0 with --simulated-nodes]")
    ] = None,
    simulated_nodes: Annotated[
        int, typer.Option(help="Nodes whose pods run without a process behind them.")
    ] = 0,
    region: Annotated[str, typer.Option(help="The region label of the nodes.")] = "local",
    latency: Annotated[
        list[str] | None,
        typer.Option(
            help="How long a packet takes one way: NODE=20ms, host=20ms, ONE:OTHER=40ms "
            "for two clusters once they are joined, or PLACE:NODE=12.5ms±2ms. May be repeated."
        ),
    ] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(help="A network for clients, see `run` and --latency. May be repeated."),
    ] = None,
    authentication: Annotated[
        Path | None,
        typer.Option(help="An AuthenticationConfiguration: whose OIDC tokens are taken."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="If the start fails, leave what there is, to look at.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a cluster, or finish starting it. Waits until it can be used.

    Running it again does no harm. With Ctrl-C, or when the start fails, a cluster
    that this command began is taken down again; one that was there before stays.

    Beside real nodes, simulated ones are tainted with edgewise.dev/simulated, so
    that only pods with a toleration land there.
    """
    wanted = nodes if nodes is not None else (0 if simulated_nodes else 1)
    trouble = real_nodes_trouble() if wanted else ""
    if trouble:
        print(
            f"edgewise: {trouble}: starting {counted(wanted, 'simulated node')} instead, whose "
            "pods run without a process behind them"
            + (", and without latency and places" if latency or place else ""),
            file=sys.stderr,
        )
        wanted, simulated_nodes = 0, simulated_nodes + wanted
    said = sorted_latencies(name, latency or [], place or [])
    spec = LocalClusterSpec(
        name=name,
        nodes=wanted,
        simulated_nodes=simulated_nodes,
        region=region,
        latency={} if trouble else said.cables,
        peer_latency={} if trouble else said.clusters,
        places={} if trouble else said.places,
        authentication=read_authentication(authentication) if authentication else "",
    )
    began = time.monotonic()
    with taken_down_on_failure(name, keep=keep), shown_progress() as progress:
        cluster = clusters.up(spec, tell=progress)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        print(json.dumps(described(cluster) | {"seconds": seconds}))
        return
    count = counted(spec.nodes + spec.simulated_nodes, "node")
    print(f"cluster {name} is ready after {seconds} s: {count} at {cluster.server}")
    print(f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@contextmanager
def taken_down_on_failure(name: str, *, keep: bool) -> Iterator[None]:
    """Nothing half-made stays, unless it was there before or somebody wants to look at it."""
    existed = Home.of(name).exists()
    try:
        yield
    except BaseException:
        if not existed and not keep and Home.of(name).path.exists():
            with uninterrupted():
                with suppress(OSError):  # perhaps it is the terminal that has gone
                    print(f"edgewise: taking {name} down again", file=sys.stderr, flush=True)
                clusters.down(name)
        raise


@app.command()
def down(
    name: Name = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every cluster, and whatever clusters left behind.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a cluster. Its processes, network, control groups and files go; nothing stays."""
    if every and name is not None:
        raise LocalError("choose --name or --all, not both")
    began = time.monotonic()
    there = [home.name for home in homes()]
    if every:
        gone = there
    elif name is not None:
        check_name(name)
        gone = [name] if name in there else []
    elif len(there) > 1:
        raise LocalError(f"which cluster? Choose --all, or one with --name: {', '.join(there)}")
    else:
        gone = there
    for each in gone or ([name] if name is not None else []):
        clusters.down(each)  # also of what is not there something may be left
    if every:
        sweep()
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        print(json.dumps({"removed": gone, "seconds": seconds}))
    else:
        nothing = "nothing to remove" if name is None else f"there is no cluster {name!r}"
        print(f"removed {', '.join(gone)} in {seconds} s" if gone else nothing)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The clusters on this machine that belong to you."""
    found, troubles = clusters.look_around()
    if as_json:
        rows = [described(cluster) | {"trouble": ""} for cluster in found]
        bad = [{"name": name, "trouble": trouble} for name, trouble in troubles.items()]
        print(json.dumps([*rows, *bad]))
        raise typer.Exit(1 if troubles else 0)
    if not found and not troubles:
        print("no clusters; start one with `edgewise local up`", file=sys.stderr)
    for cluster in found:
        spec = cluster.spec
        state = "running" if cluster.running() else "stopped"
        print(
            f"{cluster.name}  {state}  {spec.nodes} real, "
            f"{counted(spec.simulated_nodes, 'simulated node')}  "
            f"{spec.region}  {cluster.server}"
        )
    for name, trouble in troubles.items():
        print(f"{name}  unreadable  {trouble}")
    raise typer.Exit(1 if troubles else 0)


def described(cluster: LocalCluster) -> dict[str, object]:
    addresses = cluster.record.addresses
    return {
        "name": cluster.name,
        "running": bool(cluster.running()),
        "region": cluster.spec.region,
        "nodes": cluster.spec.nodes,
        "simulated_nodes": cluster.spec.simulated_nodes,
        "server": cluster.server,
        "context": cluster.context,
        "kubeconfig": str(cluster.kubeconfig),
        "host_address": cluster.host_address,
        "pods": str(addresses.pods),
        "services": str(addresses.services),
        "node_addresses": {
            node: str(addresses.node(number))
            for number, node in enumerate(cluster.spec.node_names, start=1)
        },
        "places": {
            place: str(addresses.place(number))
            for number, place in enumerate(cluster.spec.places, start=1)
        },
    }


@app.command()
def kubeconfig(
    name: Name = None,
    merged: Annotated[
        bool, typer.Option("--merge", help="Add it to your own kubeconfig, as current context.")
    ] = False,
    path: Annotated[bool, typer.Option("--path", help="Print where the file is.")] = False,
    program: Annotated[
        Literal["operator", "server"] | None,
        typer.Option(
            "--for",
            help="That of a program of Edgewise: some things are refused to administrators.",
        ),
    ] = None,
) -> None:
    """Print the kubeconfig of a cluster, or merge it into your own.

    `down` takes a merged context out again.
    """
    cluster = chosen(name)
    if program is not None:
        own = cluster.home.component_kubeconfig(program)
        print(own if path else own.read_text())
    elif merged:
        target = user_kubeconfig()
        merge(cluster.home, cluster.server, target)
        print(f"context {cluster.context} is the current one in {target}")
    elif path:
        print(cluster.kubeconfig)
    else:
        print(kubeconfig_of(cluster).read_text(), end="")


@app.command()
def logs(
    component: Annotated[
        str,
        typer.Argument(
            help="Such as kube-apiserver, local-1/kubelet or operator.",
            autocompletion=component_completion,
        ),
    ],
    name: Name = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")
    ] = 100,
) -> None:
    """What a program of a cluster wrote."""
    cluster = chosen(name)
    known = writers(cluster)
    if component not in known:
        raise LocalError(
            f"cluster {cluster.name!r} has no component {component!r}: it has {', '.join(known)}"
        )
    print_log(log_file(cluster.home.logs, component), lines, follow=follow)


def writers(cluster: LocalCluster) -> list[str]:
    """The cluster's own programs, and what wrote a log beside them, such as a demo's operator."""
    own = component_names(cluster)
    known = {log_file(cluster.home.logs, name) for name in own}
    others = [log.stem for log in sorted(cluster.home.logs.glob("*.log")) if log not in known]
    return [*own, *others]


def print_log(path: Path, lines: int, *, follow: bool) -> None:
    if not path.exists() and not follow:
        return
    path.touch()
    with path.open("r", errors="replace") as file:
        for line in deque(file, maxlen=lines):
            print(line, end="")
        while follow and path.exists():
            text = file.read()
            if text:
                print(text, end="", flush=True)
            else:
                time.sleep(0.2)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Find out what this machine lacks, and say what to do about it."""
    checks = examine()
    if as_json:
        print(json.dumps([_as_dict(check) for check in checks]))
    else:
        for check in checks:
            print(f"{'ok ' if check.good else 'NO '} {check.name}: {check.found}")
            if not check.good:
                print(f"      {check.advice}")
        real = all(check.good or not check.hinders for check in checks)
        print("this machine can run real nodes" if real else "real nodes may not work here")
    if any(check.vital and not check.good for check in checks):
        raise typer.Exit(1)


def _as_dict(check: object) -> dict[str, object]:
    return {
        field: getattr(check, field)
        for field in ("name", "good", "found", "advice", "vital", "hinders")
    }


@app.command()
def connect(
    one: One,
    other: Other,
    latency: Annotated[
        str | None, typer.Option(help="How long a packet takes one way, such as 40ms.")
    ] = None,
) -> None:
    """Join two clusters: nodes and pods of both reach each other."""
    wanted = milliseconds(latency) if latency is not None else None
    join(clusters.get(one), clusters.get(other), wanted)
    print(f"{one} and {other} reach each other")


@app.command()
def disconnect(one: One, other: Other) -> None:
    """Part two clusters again."""
    part(clusters.get(one), clusters.get(other))
    print(f"{one} and {other} are apart")
