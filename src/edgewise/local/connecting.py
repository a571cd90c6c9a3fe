"""A client for a local cluster, imported when it is needed.

Most of `edgewise local` never talks to an API server, and would spend half of its time on
importing what can.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgewise.kube.client import Client


def connect(kubeconfig: Path, *, timeout: float = 30.0) -> Client:
    """Use it as an async context manager."""
    from edgewise.kube.client import Client  # noqa: PLC0415
    from edgewise.kube.config import load_access  # noqa: PLC0415

    return Client(load_access(kubeconfig), timeout=timeout)
