"""Places: where the clients of a cluster are, as far from each node as was said.

A place is a network namespace with a cable to the cluster's segment. It has no node and no
pods, and a kube-proxy of its own, so its clients use Services as programs of a node do.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from edgewise.local.clusters import LocalCluster
from edgewise.local.component import place_machine
from edgewise.local.errors import LocalError
from edgewise.local.machines import cgroups, processes
from edgewise.local.machines.machines import group_of, init_of
from edgewise.local.machines.setup import inside
from edgewise.local.network import distances
from edgewise.local.network.cabling import alone
from edgewise.local.network.delay import Delay
from edgewise.local.network.latency import parse_distance
from edgewise.local.spec import check_node, check_place


def command_in(cluster: LocalCluster, place: str, command: Sequence[str]) -> list[str]:
    """What runs `command` in a place, in the folder of whoever calls.

    It ends when the process ends that was started with this, or the place does.
    """
    check_place(cluster.spec, place)
    init = init_of(cluster.home, place_machine(place), cluster.record.programs["init"])
    group = group_of(cluster.home, place_machine(place))
    return [
        *inside(init.pid, cgroups.entry_files(group)),
        *("setpriv", "--pdeathsig", "TERM", "sh", "-c"),
        f'cd {shlex.quote(os.getcwd())} && exec "$@"',
        "sh",
        *command,
    ]


def environment_in(cluster: LocalCluster, place: str) -> dict[str, str]:
    """The caller's own, and the marks by which `down` finds what was started in a place."""
    return {**os.environ, **processes.marks(cluster.home.path, f"run/{place}")}


def change_latency(cluster: LocalCluster, texts: Sequence[str]) -> None:
    """`rome:edge-3=80ms`: from now on a packet takes so long. If one is wrong, none holds."""
    changes: dict[str, dict[str, Delay]] = {}
    for text in texts:
        place, node, delay = parse_distance(text)
        check_place(cluster.spec, place)
        check_node(cluster.spec, node)
        changes.setdefault(place, {})[node] = delay
    set_latency(cluster, changes)


def set_latency(cluster: LocalCluster, changes: Mapping[str, Mapping[str, Delay]]) -> None:
    with alone(cluster.home):
        for place, delays in changes.items():
            distances.change(cluster.home, cluster.record, place, delays)


def place_of(cluster: LocalCluster, place: str | None) -> str:
    """The one that is named, or the only one."""
    if place is not None:
        check_place(cluster.spec, place)
        return place
    if not cluster.spec.places:
        raise LocalError(
            f"cluster {cluster.name!r} has no places: `edgewise local up --place NAME` starts one"
            " that has"
        )
    if len(cluster.spec.places) > 1:
        raise LocalError(f"which place? Choose one with --place: {', '.join(cluster.spec.places)}")
    return next(iter(cluster.spec.places))
