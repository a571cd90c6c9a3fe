"""What somebody asks for: one cluster, described. Checked here, once, before anything is made."""

from __future__ import annotations

import hashlib
import re

import msgspec

from edgewise.local.errors import BadSpec
from edgewise.local.network.delay import Delay

NAME = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

# Among the names of nodes, this machine itself.
HOST = "host"
MAX_NODES = 50
MAX_PLACES = 20
MAX_SIMULATED = 5000


def check_name(name: str) -> None:
    """Refuse what no cluster can be called."""
    if not NAME.fullmatch(name):
        shown = name if len(name) <= 60 else f"{name[:60]}…"
        raise BadSpec(
            f"a cluster cannot be called {shown!r}: use 1 to 30 lower-case letters, "
            "digits and dashes, beginning with a letter"
        )


class LocalClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
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
    # Where clients are: how long a packet takes to or from each node, by the place's name.
    places: dict[str, dict[str, Delay]] = {}
    # False leaves out the scheduler and controllers: an API server alone starts fastest.
    controllers: bool = True
    # The text of an AuthenticationConfiguration: whose tokens the API server takes.
    authentication: str = ""

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
        if (self.latency or self.peer_latency or self.places) and not self.real:
            raise BadSpec("packets take their time on real networks only: ask for real nodes")
        self._check_places()

    def _check_places(self) -> None:
        if len(self.places) > MAX_PLACES:
            raise BadSpec(f"{len(self.places)} places: ask for at most {MAX_PLACES}")
        for place, delays in self.places.items():
            if not NAME.fullmatch(place):
                raise BadSpec(
                    f"a place cannot be called {place[:60]!r}: use 1 to 30 lower-case letters, "
                    "digits and dashes, beginning with a letter"
                )
            if place in (self.name, HOST, *self.node_names):
                raise BadSpec(f"{place!r} is no name for a place: something else has it already")
            for node in delays:
                check_node(self, node)

    def options(self) -> dict[str, str]:
        """How somebody would ask for it, beside its name."""
        latencies = [
            *(f"{who}={number:g}ms" for who, number in sorted(self.latency.items())),
            *(f"{self.name}:{who}={n:g}ms" for who, n in sorted(self.peer_latency.items())),
            *(
                f"{place}:{node}={delay}"
                for place, delays in sorted(self.places.items())
                for node, delay in sorted(delays.items())
            ),
        ]
        return {
            "--nodes": str(self.nodes),
            "--simulated-nodes": str(self.simulated_nodes),
            "--region": self.region,
            "--place": " ".join(sorted(self.places)) or "none",
            "--latency": " ".join(latencies) or "none",
            "--authentication": _digest(self.authentication),
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


def _digest(text: str) -> str:
    """Enough to tell two files apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:8] if text else "none"


def check_node(spec: LocalClusterSpec, node: str) -> None:
    """Refuse what is no real node of the cluster."""
    if node not in spec.node_names:
        raise BadSpec(
            f"cluster {spec.name!r} has no real node {node[:60]!r}: "
            f"it has {', '.join(spec.node_names)}"
        )


def check_place(spec: LocalClusterSpec, place: str) -> None:
    if place not in spec.places:
        has = (
            f"it has {', '.join(spec.places)}" if spec.places else "it was started without --place"
        )
        raise BadSpec(f"cluster {spec.name!r} has no place {place[:60]!r}: {has}")


def differences(has: LocalClusterSpec, asked: LocalClusterSpec) -> str:
    """The options in which an existing cluster differs from what is asked for."""
    wanted = asked.options()
    return ", ".join(
        f"it has {option} {value} rather than {wanted[option]}"
        for option, value in has.options().items()
        if value != wanted[option]
    )
