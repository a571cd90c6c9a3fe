"""The images that every real node has from the start."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path

from edgewise.local.engine_cache import cache_root
from edgewise.local.image_layer import Layer
from edgewise.local.image_oci import Settings, write_archive
from edgewise.local.layout import ClusterRecord
from edgewise.local.node_files import PAUSE_IMAGE

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def base_image_tars(record: ClusterRecord) -> list[Path]:
    return [pause_tar(Path(record.programs["init"]))]


def pause_tar(init: Path) -> Path:
    """The image that holds the namespaces of a pod: the small init, and nothing else."""
    state = init.stat()
    made = cache_root() / "images" / f"pause-{state.st_size:x}-{state.st_mtime_ns:x}.tar"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pause-", dir=made.parent) as scratch:
            layer = Layer()
            layer.file("init", init, 0o755)
            blob = layer.write(Path(scratch) / "layer")
            archive = Path(scratch) / "image.tar"
            arch = _ARCHITECTURES.get(platform.machine(), platform.machine())
            write_archive(archive, PAUSE_IMAGE, Settings(entrypoint=["/init"]), [blob], arch)
            os.replace(archive, made)
    return made
