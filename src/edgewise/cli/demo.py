"""`edgewise demo`: a real cluster on this machine, and real pods in it, from nothing to gone."""

import asyncio
import fcntl
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, NoReturn

import aiohttp
import typer

from edgewise.cli.demo_objects import LABELS, NAME, NAMESPACE, objects
from edgewise.cli.demo_stage import Row, Stage
from edgewise.cli.progress import shown_progress
from edgewise.kube.client import Client
from edgewise.kube.core import Node, Pod, Service
from edgewise.local import clusters
from edgewise.local.clusters import Cluster, ClusterSpec
from edgewise.local.doctor import examine
from edgewise.local.errors import LocalError
from edgewise.local.images import PYTHON_IMAGE, ImageError, python_image
from edgewise.local.layout import Home, state_root

app = typer.Typer()

PODS = 6
REQUESTS = 60
PATIENCE = 90.0  # seconds for anything that the cluster has to do
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())


class DemoError(LocalError):
    """What the demo wanted to show did not happen."""


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
    """Start a cluster, show pods coming up, answering and recovering, and take it down again."""
    trouble = "--simulated was given" if simulated else why_not_real()
    # Asked to end, it cleans up, whoever asks.
    signal.signal(signal.SIGTERM, interrupt)
    with own_cluster() as name:
        worked = False
        try:
            asyncio.run(show(name, trouble))
            worked = True
            if stay if stay is not None else sys.stdin.isatty() and sys.stdout.isatty():
                print("\nIt stays up until you press Ctrl-C.", flush=True)
                threading.Event().wait()
        except KeyboardInterrupt:
            if not worked:
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


async def show(name: str, trouble: str) -> None:
    """The acts, in order; any that fails ends the demo with a sentence."""
    stage = Stage(acts=2 if trouble else 4)
    print("Edgewise: a Kubernetes cluster on this machine, and pods that come and go.\n")
    if trouble:
        print(f"Its nodes are simulated ({trouble}).\n")
    cluster = await start(stage, name, real=not trouble)
    async with cluster.client() as client:
        pods = await bring_up_pods(stage, client, stop=bool(trouble))
        if not trouble:
            await ask_service(stage, client, pods)
            await lose_a_pod(stage, client)
    print(f"\nAll of it worked, in {stage.elapsed:.0f} s.")
    if trouble:
        print("The pods were simulated: Kubernetes ran them, but no process was behind them.")
    print(next_steps(name))


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


async def bring_up_pods(stage: Stage, client: Client, *, stop: bool) -> list[Pod]:
    stage.act(f"A Deployment of {PODS} {'simulated' if stop else 'real Python'} pods")
    began = time.monotonic()
    for manifest in objects(PODS, PYTHON_IMAGE):
        await client.apply(manifest)
    pods = await until_ready(stage, client, began, lambda names: len(names) >= PODS)
    stage.say(f"{len(pods)} of {PODS} ready after {time.monotonic() - began:.1f} s")
    return pods


async def until_ready(
    stage: Stage,
    client: Client,
    began: float,
    enough: Callable[[set[str]], bool],
    old: Collection[str] = (),
) -> list[Pod]:
    """Show pods as they come, but not the old ones, until enough of them are ready."""
    times: dict[str, float] = {}
    with stage.pods() as show:
        while True:
            found = (await client.list(Pod, NAMESPACE, labels=SELECTOR)).items
            pods = [pod for pod in found if not pod.metadata.deletion_timestamp]
            for pod in pods:
                if pod.ready:
                    times.setdefault(pod.metadata.name, time.monotonic() - began)
            new = [pod for pod in pods if pod.metadata.name not in old]
            show([row_of(pod, times) for pod in sorted(new, key=lambda p: p.metadata.name)])
            ready = [pod for pod in pods if pod.ready]
            if enough({pod.metadata.name for pod in ready}):
                return ready
            if time.monotonic() - began > PATIENCE:
                raise DemoError(f"only {len(ready)} pods were ready after {PATIENCE:.0f} s")
            await asyncio.sleep(0.1)


def row_of(pod: Pod, times: dict[str, float]) -> Row:
    name = pod.metadata.name
    state = "Ready" if pod.ready else pod.status.phase or "Pending"
    return Row(name, pod.node_name, state, times.get(name))


async def ask_service(stage: Stage, client: Client, pods: list[Pod]) -> None:
    stage.act("Its Service answers")
    service = await client.get(Service, NAME, NAMESPACE)
    node = (await client.list(Node)).items[0]
    address = next(a.address for a in node.status.addresses if a.type == "InternalIP")
    url = f"http://{address}:{service.spec.ports[0].node_port}/"
    answers = await ask(url, until_all={pod.metadata.name for pod in pods})
    stage.say(
        f"from this machine: {answers.total()} requests to {url} were answered by "
        f"{len(answers)} pods"
    )
    inside = f"http://{NAME}.{NAMESPACE}.svc.cluster.local/"
    told = await client.exec(pods[0].metadata.name, NAMESPACE, ["wget", "-qO-", inside])
    if told.exit_code:
        raise DemoError(f"a pod could not reach {inside}: {told.stderr.decode().strip()}")
    stage.say(f"from a pod, by its name: {inside} was answered by {told.stdout.decode()}")


async def ask(url: str, until_all: set[str]) -> Counter[str]:
    """Ask until every pod has answered; connections are new each time, so any may."""
    answers: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE
    # A proxy of the user's would not find a cluster that is on this machine.
    connector = aiohttp.TCPConnector(force_close=True)
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        while answers.total() < REQUESTS or set(answers) < until_all:
            try:
                async with session.get(url) as answer:
                    answers[await answer.text()] += 1
            except (OSError, aiohttp.ClientError) as error:
                raise DemoError(f"{url} did not answer: {error}") from error
            if time.monotonic() > deadline:
                raise DemoError(f"only {len(answers)} of {len(until_all)} pods answered at {url}")
    return answers


async def lose_a_pod(stage: Stage, client: Client) -> None:
    stage.act("A pod is lost, and another takes its place")
    before = {pod.metadata.name for pod in (await client.list(Pod, NAMESPACE)).items}
    lost = min(before)
    began = time.monotonic()
    await client.delete(Pod, lost, NAMESPACE)

    await until_ready(
        stage, client, began, lambda names: lost not in names and len(names) >= PODS, old=before
    )
    stage.say(f"{lost} was deleted, and replaced after {time.monotonic() - began:.1f} s")


def next_steps(name: str) -> str:
    return f"""
Try next, in another terminal while it is up, or after `edgewise local up --name {name} --nodes 2`:
  export PATH=$PWD/.venv/bin:$PATH
  edgewise local kubectl --name {name} get pods -A -o wide
  edgewise local status --name {name}
  edgewise local fault --help"""
