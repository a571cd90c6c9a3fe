"""Names, labels and finalizers of game servers."""

from __future__ import annotations

from edgewise.api.games import GROUP

# The labels of the first implementation, which people select by. On servers and pods.
SERVER = "server"
FLEET = "fleet"
TYPE = "type"

# On every pod of a server; the policy protects by it, so nobody may take it off.
PROTECTED = f"{GROUP}/server"
# On servers and pods: which version of the spec they were made from.
VERSION = f"{GROUP}/version"
# On servers of a fleet: their number in it.
NUMBER = f"{GROUP}/number"
# On servers of a fleet: Packed or Distributed.
SCHEDULING = f"{GROUP}/scheduling"
# On pods: which ports of the node were chosen, by name.
PORTS = f"{GROUP}/ports"
# On ConfigMaps with logs of games that failed: whose they are.
FAILED_STARTS = f"{GROUP}/failed-starts"
# On servers above the number that their fleet should have.
OVERFLOW = f"{GROUP}/overflow"

# Held until what the object stands for is gone.
SERVER_FINALIZER = f"{GROUP}/pod"
FLEET_FINALIZER = f"{GROUP}/servers"
GAMETYPE_FINALIZER = f"{GROUP}/fleets"

BUDGET = "edgewise-game-servers"
BUDGET_MARK = f"{GROUP}/budget"
PRIORITY_CLASS = "edgewise-game-server"
POLICY = "edgewise-game-servers"
# Those whom the policy lets through: as a certificate names them, and as the chart does.
OPERATOR_USER = "edgewise:operator"
SERVER_USER = "edgewise:server"
UNINSTALL_USER = "edgewise:uninstall"
UNINSTALL_ACCOUNT = "edgewise-uninstall"
OPERATOR_ACCOUNT = "edgewise-operator"
SERVER_ACCOUNT = "edgewise-server"

SIDECAR_TOKEN = "edgewise-sidecar-token"  # noqa: S105 - the name of a volume
SIDECAR_STATE = "edgewise-sidecar-state"
# What the token of a sidecar is good for: to speak to the operator, and nothing else.
AUDIENCE = "edgewise-game-servers"

POD_SUFFIX = "-pod"
# Of Allocations that retire many servers. The policy keeps such names for the operator.
RETIRING_SUFFIX = ".retired"


def pod_of(server: str) -> str:
    return f"{server}{POD_SUFFIX}"


def failed_starts_of(owner: str) -> str:
    """The ConfigMap with the logs of what failed, of a fleet or of a server alone."""
    return f"{owner}-failed-starts"


def server_of(pod: str) -> str:
    """The server that a pod of this name belongs to."""
    return pod.removesuffix(POD_SUFFIX)


def server_name(fleet: str, number: int) -> str:
    """Two operators that make the same server name it alike, so the API server lets one do it."""
    return f"{fleet}-{number}"


def retiring(server: str) -> str:
    """The Allocation that retires a server and others, of which it is the first."""
    return f"{server}{RETIRING_SUFFIX}"
