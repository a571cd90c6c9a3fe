"""Putting image archives into the nodes of running clusters."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from edgewise.local.clusters import LocalCluster
from edgewise.local.component import CONTAINERD_SOCKET
from edgewise.local.engine.progress import Progress, silent
from edgewise.local.images.golden import NAMESPACE
from edgewise.local.images.oci import ImageError, Summary, check_name, read_archive
from edgewise.local.machines.setup import inside

AT_ONCE = 4  # unpacking is bound by the processor and the disk
SECONDS = 300


@dataclass(frozen=True)
class Node:
    cluster: str
    name: str
    enter: tuple[str, ...]  # what is put before a command to run it there

    def ctr(self, *arguments: str) -> list[str]:
        program = shutil.which("ctr")
        if program is None:
            raise ImageError("containerd's `ctr` is missing: install the package containerd")
        return [*self.enter, program, "-a", CONTAINERD_SOCKET, "-n", NAMESPACE, *arguments]


def nodes_of(clusters: Iterable[LocalCluster]) -> list[Node]:
    """The real nodes; simulated ones run no container and hold no image."""
    found = []
    for cluster in clusters:
        machines = {
            process.component: process
            for process in cluster.running()
            if process.argv[0] == cluster.record.programs.get("init")
        }
        for name in cluster.spec.node_names:
            if name not in machines:
                raise ImageError(
                    f"node {name} does not run: start it again with "
                    f"`edgewise local up --name {cluster.name}`, or see `edgewise local status`"
                )
            found.append(Node(cluster.name, name, tuple(inside(machines[name].pid, ()))))
    return found


def load(
    archive: Path, nodes: Sequence[Node], *, name: str = "", progress: Progress = silent
) -> tuple[str, ...]:
    """Import the archive on each node; returns the names by which pods can use it."""
    if not archive.exists():
        raise ImageError(
            f"{archive} is neither a file nor the name of an image that was built here: "
            "`edgewise local image list` shows those"
        )
    summary = read_archive(archive)
    flags, names = naming(archive, summary, name)
    if not nodes:
        raise ImageError(
            "no running cluster has real nodes to load it into: start one with "
            "`edgewise local up --nodes 1`"
        )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [pool.submit(import_on, node, archive, flags, progress) for node in nodes]
        for each in done:
            each.result()
    return names


def naming(archive: Path, summary: Summary, name: str) -> tuple[list[str], tuple[str, ...]]:
    """Flags for the import, and the names that come of it."""
    if name:
        return ["--index-name", check_name(name)], (name,)
    if summary.names and not summary.named_by_tag:
        return [], summary.names
    if len(summary.names) == 1:
        return ["--index-name", check_name(summary.names[0])], summary.names
    raise ImageError(f"{archive} does not say its name: give one with --name edgewise.local/x:1")


def import_on(node: Node, archive: Path, flags: list[str], progress: Progress) -> None:
    progress(node.name, f"importing {archive.name}")
    with archive.open("rb") as content:
        done = subprocess.run(
            node.ctr("images", "import", *flags, "-"),
            stdin=content,  # a node does not see the whole file system
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise ImageError(f"{archive} cannot be imported on node {node.name}: {said}")
    progress(node.name, f"has {archive.name}")


def names_on(node: Node) -> set[str]:
    done = subprocess.run(
        node.ctr("images", "ls", "-q"), capture_output=True, text=True, timeout=30, check=False
    )
    return {line for line in done.stdout.split() if "@" not in line and "sha256:" not in line}
