"""A demo on one cluster of real nodes that is there only for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from edgewise.cli.demo.commands import own_name, take_down, why_not_real
from edgewise.cli.demo.play import DemoError


def on_own_cluster(part: str, show: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    """Show it on a cluster of this name, which is gone afterwards whatever happens."""
    if trouble := why_not_real():
        raise DemoError(f"this demo needs real nodes, and they cannot be had here: {trouble}")
    with own_name() as name:
        cluster = f"{name}-{part}"
        take_down(cluster)  # what a killed demo left
        try:
            asyncio.run(show(cluster))
        finally:
            take_down(cluster)
            print("\nThe cluster is taken down; nothing of it is left.", flush=True)
