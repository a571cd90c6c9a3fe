"""What somebody asks for: one cluster, described. Checked here, once, before anything is made."""

from __future__ import annotations

import re

import msgspec

from edgewise.local.errors import BadSpec

NAME = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

# Among the names of nodes, this machine itself.
HOST = "host"
MAX_NODES = 50
MAX_SIMULATED = 5000


def check_name(name: str) -> None:
    """Refuse what no cluster can be called."""
    if not NAME.fullmatch(name):
        shown = name if len(name) <= 60 else f"{name[:60]}…"
        raise BadSpec(
            f"a cluster cannot be called {shown!r}: use 1 to 30 lower-case letters, "
            "digits and dashes, beginning with a letter"
        )


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One local cluster.

    `nodes` are real machines made of namespaces, and need root. `simulated_nodes`
    are kept alive by kwok: their pods become Running without a process behind them.
    """

    name: str = "edgewise"
    nodes: int = 0
    simulated_nodes: int = 0
    region: str = "local"
    # Milliseconds that a packet takes from or to a real node, by its name, or the host.
    latency: dict[str, float] = {}
    # The same to another cluster, by that one's name, once the two are joined.
    peer_latency: dict[str, float] = {}
    # False leaves out the scheduler and controllers: an API server alone starts fastest.
    controllers: bool = True

    def __post_init__(self) -> None:
        check_name(self.name)
        if not 0 <= self.nodes <= MAX_NODES:
            raise BadSpec(f"{self.nodes} real nodes: ask for 0 to {MAX_NODES}")
        if not 0 <= self.simulated_nodes <= MAX_SIMULATED:
            raise BadSpec(f"{self.simulated_nodes} simulated nodes: ask for 0 to {MAX_SIMULATED}")
        if not LABEL_VALUE.fullmatch(self.region):
            raise BadSpec(
                f"a region cannot be called {self.region!r}: it becomes a node label, so use "
                "letters, digits, dashes and dots"
            )
        if (self.nodes or self.simulated_nodes) and not self.controllers:
            raise BadSpec("a cluster with nodes needs its controllers")
        unknown = set(self.latency) - {HOST, *self.node_names}
        if unknown:
            names = ", ".join([*self.node_names, HOST])
            raise BadSpec(f"no cable leads to {min(unknown)!r}: there are {names}")
        if (self.latency or self.peer_latency) and not self.real:
            raise BadSpec("packets take their time on real networks only: ask for real nodes")

    def options(self) -> dict[str, str]:
        """How somebody would ask for it, beside its name."""
        latencies = [
            *(f"{who}={number:g}ms" for who, number in sorted(self.latency.items())),
            *(f"{self.name}:{who}={n:g}ms" for who, n in sorted(self.peer_latency.items())),
        ]
        return {
            "--nodes": str(self.nodes),
            "--simulated-nodes": str(self.simulated_nodes),
            "--region": self.region,
            "--latency": " ".join(latencies) or "none",
            "controllers": "yes" if self.controllers else "no",
        }

    @property
    def real(self) -> bool:
        """Whether it has machines of its own, and so a network of its own."""
        return self.nodes > 0

    @property
    def node_names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(1, self.nodes + 1)]

    @property
    def simulated_names(self) -> list[str]:
        return [f"{self.name}-sim-{number}" for number in range(1, self.simulated_nodes + 1)]


def differences(has: ClusterSpec, asked: ClusterSpec) -> str:
    """The options in which an existing cluster differs from what is asked for."""
    wanted = asked.options()
    return ", ".join(
        f"it has {option} {value} rather than {wanted[option]}"
        for option, value in has.options().items()
        if value != wanted[option]
    )
