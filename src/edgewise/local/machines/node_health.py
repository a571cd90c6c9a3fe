"""How soon a silent node counts as lost, and how often nodes say that they live.

A small cluster reacts within seconds, which is what failure tests want. Each
simulated node costs a lease write per renewal, so many of them are given more time.
"""

from __future__ import annotations

import msgspec

from edgewise.local.spec import LocalClusterSpec

_FEW = 20
_MANY = 200


class NodeHealth(msgspec.Struct, frozen=True):
    grace_seconds: int
    lease_seconds: int  # of real nodes; renewed every quarter of it
    simulated_lease_seconds: int


def node_health(spec: LocalClusterSpec) -> NodeHealth:
    if spec.simulated_nodes <= _FEW:
        return NodeHealth(grace_seconds=16, lease_seconds=12, simulated_lease_seconds=12)
    if spec.simulated_nodes <= _MANY:
        return NodeHealth(grace_seconds=50, lease_seconds=40, simulated_lease_seconds=120)
    return NodeHealth(grace_seconds=600, lease_seconds=40, simulated_lease_seconds=400)
