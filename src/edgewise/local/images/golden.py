"""A ready-made image store, from which every node gets its own copy at once.

Importing images takes containerd seconds for each node. So it is done once for a
given set of images, in namespaces of its own, and a node's store is a copy made
of hard links: blobs and unpacked layers never change; only the databases are
really copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgewise.local.engine.cache import alone, cache_root
from edgewise.local.engine.progress import Progress, silent
from edgewise.local.errors import LocalError
from edgewise.local.images.store import Image

_IMPORT_SECONDS = 300
_START_SECONDS = 30
NAMESPACE = "k8s.io"


def golden_store(images: Iterable[Image], containerd: str, progress: Progress = silent) -> Path:
    """The store that holds these images; made on first use, then kept in the cache."""
    wanted = sorted(images, key=lambda image: image.name)
    folder = cache_root() / "node-images" / _key(wanted, containerd)
    if folder.is_dir():
        return folder
    with alone(folder.parent / "lock", "images", progress):
        if not folder.is_dir():
            for stale in folder.parent.glob(".store-*"):
                shutil.rmtree(stale, ignore_errors=True)  # of somebody who was killed
            with tempfile.TemporaryDirectory(prefix=".store-", dir=folder.parent) as scratch:
                progress("node images", f"importing {len(wanted)}")
                _import(Path(scratch), [image.archive for image in wanted], containerd)
                (Path(scratch) / "root").replace(folder)
    return folder


def _key(images: list[Image], containerd: str) -> str:
    state = Path(containerd).stat()
    parts = [f"{containerd} {state.st_size} {state.st_mtime_ns}"]
    parts += [f"{image.name} {image.digest}" for image in images]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _import(scratch: Path, archives: list[Path], containerd: str) -> None:
    config = scratch / "config.toml"
    config.write_text(
        "version = 2\n"
        f'root = "{scratch}/root"\n'
        f'state = "{scratch}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]\n'
        f'[grpc]\n  address = "{scratch}/containerd.sock"\n'
    )
    with _running(scratch, [containerd, "--config", str(config)]):
        ctr = [shutil.which("ctr") or "ctr", "--address", f"{scratch}/containerd.sock"]
        _until_answers([*ctr, "version"])
        for archive in archives:
            done = subprocess.run(
                [*ctr, "--namespace", NAMESPACE, "images", "import", str(archive)],
                check=False,
                capture_output=True,
                text=True,
                timeout=_IMPORT_SECONDS,
            )
            if done.returncode != 0:
                raise LocalError(f"image archive {archive} cannot be imported: {done.stderr}")


@contextlib.contextmanager
def _running(scratch: Path, command: list[str]) -> Iterator[None]:
    """containerd in namespaces of its own: whatever it mounts ends with it."""
    # It ends with this process too, so it needs no mark by which to be found.
    dying = ["setpriv", "--pdeathsig", "KILL", "unshare"]
    namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (scratch / "log").open("wb") as log:
        process = subprocess.Popen(
            [*dying, *namespaces, "--propagation=private", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        # Asked to end, containerd closes its databases; killed, they might be torn.
        with contextlib.suppress(subprocess.TimeoutExpired):
            _terminate_children(process.pid)
            process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()


def _terminate_children(pid: int) -> None:
    """`unshare` does not pass a signal on to the process that it waits for."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), 15)


def _until_answers(command: list[str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        answer = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_START_SECONDS
        )
        if answer.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise LocalError(f"containerd does not start: {answer.stderr.strip()}")
        time.sleep(0.05)


def copy_store(store: Path, target: Path) -> None:
    """A node's own store. Links where the file system allows them, copies otherwise."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    linked = subprocess.run(
        ["cp", "-al", str(store), str(partial)], check=False, capture_output=True, timeout=120
    )
    if linked.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run(["cp", "-a", str(store), str(partial)], check=True, timeout=300)
    # Only containerd's own: what a layer holds under such a name is the image's.
    for database in partial.glob("*/*.db"):
        copy = database.with_suffix(".copy")
        shutil.copy2(database, copy)
        copy.replace(database)
    partial.replace(target)
