"""What can stand between a match and its server."""

from __future__ import annotations

from edgewise.runtime.errors import Refused, ServiceError, Unavailable


class GamesUnreachable(Unavailable):
    """The cluster of the servers does not answer, so nothing can be decided."""

    def __init__(self) -> None:
        super().__init__(
            "the cluster that runs the game servers does not answer: matches go on, but nothing "
            "can be changed until it is back; repeat the call shortly, with the same match"
        )


class NoServerFree(ServiceError):
    """Every server that would do is taken; that may change."""

    def __init__(self, text: str, retry_after: float) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class ClusterBusy(ServiceError):
    """The cluster of the servers asks to be asked less."""

    retry_after = 1

    def __init__(self) -> None:
        super().__init__("the cluster of the game servers is busy: repeat the call in a second")


class NothingTaken(Refused):
    """The cluster does not let anything be taken, such as in a namespace that is being deleted."""


class AllocationGone(ServiceError):
    """The holder comes back late: its server is another match's by now, or nobody's."""
