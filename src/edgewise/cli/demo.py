"""`edgewise demo`: a cluster on this machine, and a session in it, from nothing to gone."""

import asyncio
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, NoReturn

import typer

from edgewise.api.installation import install
from edgewise.api.registry import kinds
from edgewise.api.sessions import Session
from edgewise.cli.demo_objects import NAMESPACE
from edgewise.cli.demo_play import DemoError, Play
from edgewise.cli.demo_stage import Stage
from edgewise.cli.progress import shown_progress
from edgewise.kube.core import Node, Pod
from edgewise.local import clusters
from edgewise.local.clusters import Cluster, ClusterSpec
from edgewise.local.doctor import examine
from edgewise.local.images import ImageError, python_image
from edgewise.local.layout import Home, state_root
from edgewise.local.platform import running_platform
from edgewise.runtime.awaiting import watching

app = typer.Typer()


@app.command()
def demo(
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Use simulated nodes even if real ones could run.")
    ] = False,
    stay: Annotated[
        bool | None,
        typer.Option(help="Stay up until Ctrl-C. [default: at a terminal]", show_default=False),
    ] = None,
) -> None:
    """Start a cluster, show a session at work in it, and take it all down again."""
    trouble = "--simulated was given" if simulated else why_not_real()
    # Asked to end, it cleans up, whoever asks.
    signal.signal(signal.SIGTERM, interrupt)
    staying = stay if stay is not None else sys.stdin.isatty() and sys.stdout.isatty()
    with own_cluster() as name:
        worked = asyncio.Event()
        try:
            asyncio.run(show(name, trouble, worked, staying=staying))
        except KeyboardInterrupt:
            if not worked.is_set():
                raise
        finally:
            clusters.down(name)
            print(f"\nThe cluster {name} is taken down; nothing of it is left.", flush=True)


# What a machine may lack and still run two small nodes.
NOT_DECISIVE = ("engine", "disk", "memory", "inotify", "leftovers")


def why_not_real() -> str:
    """What keeps real nodes from running here, and what to do; empty if nothing does."""
    for check in examine():
        if not check.good and check.name not in NOT_DECISIVE:
            return f"{check.name}: {check.found}" + (f"; {check.advice}" if check.advice else "")
    try:
        with shown_progress() as progress:
            python_image(progress)  # without it there would be nothing to run
    except ImageError as error:
        return str(error)
    return ""


@contextmanager
def own_cluster() -> Iterator[str]:
    """A cluster name that no other demo is using; what a killed demo left is removed."""
    folder = state_root()
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 100):
        name = "demo" if number == 1 else f"demo-{number}"
        with (folder / f"{name}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not same_file(lock.fileno(), lock.name):
                continue  # its demo ended, and removed it, while we waited
            if Home.of(name).path.exists():
                clusters.down(name)
            try:
                yield name
            finally:
                os.unlink(lock.name)
            return
    raise DemoError("a hundred demos are running at once: end some of them")


def same_file(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


async def show(name: str, trouble: str, worked: asyncio.Event, *, staying: bool) -> None:
    """The acts, in order; any that fails ends the demo with a sentence."""
    stage = Stage(acts=7)
    print("Edgewise: every client of a session gets a server of its own, and keeps it.\n")
    if trouble:
        print(f"Its nodes are simulated ({trouble}).\n")
    cluster = await start(stage, name, real=not trouble)
    async with cluster.client() as client:
        stage.act("The operator and the gateway" if not trouble else "The operator")
        began = time.monotonic()
        await install(client, kinds())
        async with (
            running_platform(cluster, gateway=not trouble) as platform,
            watching(client, Session, Pod) as (sessions, pods),
        ):
            where = "" if trouble else f", one entry point at {platform.public_url}"
            stage.say(f"running after {time.monotonic() - began:.1f} s{where}")
            await Play(stage, client, sessions, pods, real=not trouble).run()
            worked.set()
            print(f"\nAll of it worked, in {stage.elapsed:.0f} s.")
            if trouble:
                print("The pods were simulated: no process was behind them.")
            print(next_steps(name))
            if staying:
                print("\nIt stays up until you press Ctrl-C.", flush=True)
                await asyncio.Event().wait()


async def start(stage: Stage, name: str, *, real: bool) -> Cluster:
    spec = ClusterSpec(name=name, nodes=2 if real else 0, simulated_nodes=0 if real else 3)
    stage.act(f"A cluster with {'two real' if real else 'three simulated'} nodes")
    began = time.monotonic()
    with shown_progress() as progress:
        cluster = await clusters.bring_up(spec, tell=progress)
    async with cluster.client() as client:
        version = await client.version()
        nodes = (await client.list(Node)).items
    names = ", ".join(node.metadata.name for node in nodes)
    took = time.monotonic() - began
    stage.say(f"Kubernetes {version} with {names}, ready after {took:.1f} s")
    return cluster


def next_steps(name: str) -> str:
    return f"""
Try next, in another terminal while it is up:
  export PATH=$PWD/.venv/bin:$PATH
  export KUBECONFIG=$(edgewise local kubeconfig --name {name} --path)
  edgewise session create room-2 --template hello --namespace {NAMESPACE}
  edgewise session join room-2 you --namespace {NAMESPACE} --wait
  edgewise local kubectl --name {name} get sessions,pods -A
  edgewise local fault --help"""
