"""The enforcer among the programs that a cluster's manager keeps running."""

from __future__ import annotations

import sys

from edgewise.local.component import Component
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.network.policies.names import ENFORCER


def enforcers(home: Home, record: ClusterRecord) -> list[Component]:
    """One for all nodes; none where there are only simulated ones, which carry no packets."""
    if not record.spec.real:
        return []
    module = "edgewise.local.network.policies.waiting"
    where = (str(home.path), record.api_host, str(record.api_port))
    return [Component(name=ENFORCER, argv=(sys.executable, "-m", module, *where))]
