"""`edgewise demo`: many clusters, and a session over them, from nothing to gone."""

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from edgewise.cli.demo.objects import NAMESPACE, TEMPLATE, template
from edgewise.cli.demo.play import DemoError, Play
from edgewise.cli.demo.stage import Stage
from edgewise.cli.progress import shown_progress
from edgewise.local import clusters
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.doctor import examine
from edgewise.local.images.building import PYTHON_IMAGE, ImageError, python_image
from edgewise.local.installation import Installation, Silence, running_installation
from edgewise.local.layout import Home, state_root
from edgewise.local.spec import HOST

NEAR, FAR = "porto", "paris"
# Region, and milliseconds from here, one way.
LOCATIONS = {NEAR: ("eu-west", 5.0), FAR: ("eu-central", 40.0)}

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
    """Start two clusters, show a session at work over them, and take it all down again."""
    trouble = "--simulated was given" if simulated else why_not_real()
    staying = stay if stay is not None else sys.stdin.isatty() and sys.stdout.isatty()
    with own_name() as name:
        worked = asyncio.Event()
        try:
            asyncio.run(show(name, trouble, worked, staying=staying))
        except KeyboardInterrupt:
            if not worked.is_set():
                raise
        finally:
            take_all_down(name)
            print("\nThe clusters are taken down; nothing of them is left.", flush=True)


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
def own_name() -> Iterator[str]:
    """A name that no other demo is using; what a killed demo left under it is removed."""
    folder = state_root()
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 100):
        name = "demo" if number == 1 else f"demo{number}"
        with (folder / f"{name}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not same_file(lock.fileno(), lock.name):
                continue  # its demo ended, and removed it, while we waited
            take_all_down(name)
            try:
                yield name
            finally:
                os.unlink(lock.name)
            return
    raise DemoError("a hundred demos are running at once: end some of them")


def take_all_down(name: str) -> None:
    for part in ("hub", *LOCATIONS):
        take_down(f"{name}-{part}")


def take_down(cluster: str) -> None:
    if Home.of(cluster).path.exists():
        clusters.down(cluster)


def same_file(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


async def show(name: str, trouble: str, worked: asyncio.Event, *, staying: bool) -> None:
    """The acts, in order; any that fails ends the demo with a sentence."""
    stage = Stage(acts=8)
    real = not trouble
    print("Edgewise: every client of a session gets a server of its own, near it, and keeps it.\n")
    if trouble:
        print(f"The nodes are simulated ({trouble}).\n")
    hub, members = await start(stage, name, real=real)
    agents = "operator, gateway and ping agent" if real else "an operator"
    stage.act(f"In each cluster {agents}; over them the server")
    began = time.monotonic()
    async with running_installation(
        hub,
        members,
        namespace=NAMESPACE,
        gateway=real,
        inside=real,
        silence=Silence(suspect_after=2.0, lost_after=5.0),
    ) as installation:
        async with hub.client() as client:
            await client.apply(template(PYTHON_IMAGE))
        stage.say(f"running after {time.monotonic() - began:.1f} s; watch it in a browser:")
        stage.say(installation.page)
        async with Play(stage, installation, hub, members, real=real) as play:
            await play.run()
        worked.set()
        print(f"\nAll of it worked, in {stage.elapsed:.0f} s.")
        if trouble:
            print("The pods were simulated: no process was behind them.")
        print(next_steps(members[NEAR].name, installation) if staying else AFTERWARDS)
        if staying:
            print("\nIt stays up until you press Ctrl-C.", flush=True)
            await asyncio.Event().wait()


async def start(
    stage: Stage, name: str, *, real: bool
) -> tuple[LocalCluster, dict[str, LocalCluster]]:
    kind = "real" if real else "simulated"
    stage.act(f"Two clusters in two regions, each with one {kind} node, and a hub")
    began = time.monotonic()
    specs = [LocalClusterSpec(name=f"{name}-hub", controllers=False)]
    for location, (region, latency) in LOCATIONS.items():
        specs.append(
            LocalClusterSpec(
                name=f"{name}-{location}",
                nodes=1 if real else 0,
                simulated_nodes=0 if real else 1,
                region=region,
                latency={HOST: latency} if real else {},
            )
        )
    with shown_progress() as progress:
        hub, *others = await asyncio.gather(
            *(clusters.bring_up(spec, tell=progress) for spec in specs)
        )
    async with others[0].client() as client:
        version = await client.version()
    regions = " and ".join(f"{each.name} in {each.spec.region}" for each in others)
    stage.say(f"Kubernetes {version}: {regions}, ready after {time.monotonic() - began:.1f} s")
    return hub, dict(zip(LOCATIONS, others, strict=True))


AFTERWARDS = """
Try next:
  make demo                                  at a terminal: then it stays up, to play with
  .venv/bin/edgewise local up --nodes 1      a cluster of your own
  docs/tutorial/first-session.md             a session in it, step by step"""


def next_steps(cluster: str, installation: Installation) -> str:
    return f"""
Try next, in another terminal while it is up:
  export PATH=$PWD/.venv/bin:$PATH
  export EDGEWISE_SERVER={installation.urls[0]} EDGEWISE_TOKEN={installation.token}
  edgewise session create room-2 --template {TEMPLATE}
  edgewise session join room-2 you --wait
  edgewise local kubectl --name {cluster} get sessions,pods -A
  edgewise local fault --help
Or watch it in a browser: {installation.page}"""
