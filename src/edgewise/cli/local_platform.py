"""`edgewise local platform`: operator and gateway beside a local cluster, in the background."""

import asyncio
import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from edgewise.api.installation import install
from edgewise.api.registry import kinds
from edgewise.cli.local_choice import Name, chosen
from edgewise.local.clusters import Cluster
from edgewise.local.component import log_file
from edgewise.local.errors import LocalError
from edgewise.local.platform import running_platform

app = typer.Typer()

COMPONENT = "platform"
PATIENCE = 90.0
LOOK_EVERY = 1.0


@app.command()
def platform(
    name: Name = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until Ctrl-C instead of going on alone.")
    ] = False,
) -> None:
    """Run operator and gateway for a local cluster, until it is taken down.

    Twice is fine. Both run on this machine, so the cluster needs no image of them.
    """
    cluster = chosen(name)
    with sole(cluster) as first:
        if not first:
            print(f"the platform of cluster {cluster.name} is running already")
            return
        if foreground:
            asyncio.run(serve(cluster))
    if not foreground:
        start(cluster)


@contextmanager
def sole(cluster: Cluster) -> Iterator[bool]:
    """Whether nobody else runs the platform of this cluster, for as long as the block runs."""
    with (cluster.home.path / f"{COMPONENT}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


async def serve(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await install(client, kinds())
    async with running_platform(cluster, gateway=cluster.spec.real) as running:
        where = f": one entry point at {running.public_url}" if cluster.spec.real else ""
        print(f"the platform of cluster {cluster.name} is ready{where}", flush=True)
        while cluster.home.exists():  # noqa: ASYNC110 - nobody tells us that a folder is gone
            await asyncio.sleep(LOOK_EVERY)


def start(cluster: Cluster) -> None:
    """In the background. Not one of the cluster's own programs, which are killed by `down`: it
    ends in order when it sees the cluster gone."""
    log = log_file(cluster.home.logs, COMPONENT)
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "edgewise.cli", "local", "platform", "--foreground"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--name", cluster.name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE
    while "is ready" not in (said := log.read_text(errors="replace")):
        if process.poll() is not None:
            last = (said.strip().splitlines() or ["it wrote nothing"])[-1]
            raise LocalError(f"the platform ended at once: {last.removeprefix('edgewise: ')}")
        if time.monotonic() > deadline:
            process.terminate()
            raise LocalError(f"the platform was not ready after {PATIENCE:.0f} s; see {log}")
        time.sleep(0.05)
    print(said.strip().splitlines()[-1])
