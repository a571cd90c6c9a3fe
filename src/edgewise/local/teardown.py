"""Takes a cluster down: from its folder alone, in whatever state it is.

The order matters. First it is written down that the cluster goes, so that no
manager starts anything again; then processes end, and only then is removed what
they held; the folder goes last, because it is what a second attempt starts from.
"""

from __future__ import annotations

import contextlib
import os
import shutil

from edgewise.local import cabling, cgroups, connections, processes, registry
from edgewise.local.errors import LocalError
from edgewise.local.kubeconfigs import unmerge, user_kubeconfig
from edgewise.local.layout import LINK_PREFIX, Home


def take_down(home: Home) -> None:
    if not home.path.exists():
        return
    home.going_down.touch()
    connections.forget_everywhere(home)
    processes.kill_all(lambda: processes.of_cluster(home.path))
    if os.geteuid() == 0:
        remove_from_system(home)
    with contextlib.suppress(LocalError):
        unmerge(home, user_kubeconfig())
    registry.release(home)
    remove_folder(home)


def remove_from_system(home: Home) -> None:
    """What the kernel keeps although no process of the cluster is left."""
    cgroups.remove(home.cgroup)
    if home.host_link in host_links():
        cabling.ip([f"link del {home.host_link}"])
    cabling.nft(f"table inet {home.filter_table}\ndelete table inet {home.filter_table}\n")


def host_links() -> set[str]:
    return {link for link in os.listdir("/sys/class/net") if link.startswith(LINK_PREFIX)}


def remove_folder(home: Home) -> None:
    shutil.rmtree(home.path)
    for parent in (home.path.parent, home.path.parent.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()
