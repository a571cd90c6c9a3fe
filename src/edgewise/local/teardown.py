"""Takes a cluster down: from its folder alone, in whatever state it is.

The order matters. First it is written down that the cluster goes, so that no
manager starts anything again; then processes end, and only then is removed what
they held; the folder goes last, because it is what a second attempt starts from.
"""

from __future__ import annotations

import contextlib
import shutil

from edgewise.local import processes, registry
from edgewise.local.layout import Home


def take_down(home: Home) -> None:
    if not home.path.exists():
        return
    home.going_down.touch()
    processes.kill_all(lambda: processes.of_cluster(home.path))
    registry.release(home)
    remove_folder(home)


def remove_folder(home: Home) -> None:
    shutil.rmtree(home.path)
    for parent in (home.path.parent, home.path.parent.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()
