"""What the plan of a server sees: values, gathered by `observe`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.api.games import Server


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of the pod of a server."""

    uid: str
    ip: str = ""
    host_ip: str = ""
    node: str = ""
    running: bool = False
    ready: bool = False
    ended: bool = False
    succeeded: bool = False
    deleting: bool = False
    started: bool = False  # the game runs, or has run
    orphan: bool = False  # of a Server of the same name that is gone
    disrupted: str = ""  # why Kubernetes is about to remove it
    evicted_by: str = ""  # a NoExecute taint of its node that it does not tolerate
    reason: str = ""  # while it is not ready: one word, and a sentence
    text: str = ""
    trouble: bool = False  # it will not become ready by itself
    no_port: bool = False  # no node has the port free that was chosen for it
    host_ports: Mapping[str, int] = {}  # name of a game port -> the port of its node


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of the node on which the pod is."""

    address: str = ""
    lost_since: float | None = None
    cordoned: bool = False


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The Allocation of the server's name, or a list by which its fleet removes it."""

    uid: str  # empty of a list
    retired: bool = False
    stale: bool = False  # it was made for another server of this name


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    server: Server
    pod: PodFacts | None = None
    node: NodeFacts = NodeFacts()
    taken: Taken | None = None
    namespace_ends: bool = False
    budget: bool = True  # an eviction of its pod finds the budget that makes it wait
    other_budget: str = ""  # a PodDisruptionBudget that selects the pod besides Edgewise's
    fleet: str = ""  # the fleet that replaces this server; empty: it stands alone

    @property
    def allocated(self) -> bool:
        """Whether somebody plays on it, as far as anybody has said."""
        return bool(self.held) or self._took_itself

    @property
    def held(self) -> Taken | None:
        """The Allocation by which somebody has it; not one that the game has ended."""
        taken = self.taken
        return None if taken is None or taken.retired or self.spent else taken

    @property
    def spent(self) -> bool:
        """Whether the Allocation of the server's name is over."""
        taken = self.taken
        if taken is None:
            return False
        return taken.stale or (bool(taken.uid) and taken.uid == self._released)

    @property
    def _released(self) -> str:
        game = self.server.status.game
        return game.released if game and self.pod and game.pod == self.pod.uid else ""

    @property
    def _took_itself(self) -> bool:
        game = self.server.status.game
        return bool(game and self.pod and game.pod == self.pod.uid and game.allocated)
