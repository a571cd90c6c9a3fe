"""The life of a slice: shared nodes are reserved, emptied for their tenant, and given back.

A plan never remembers how far it came. The label of a node says which slice has it, one taint that
only pods of the slice come, a second one that nothing comes any more. Each write names the version
of the node that it was planned for, so no node gets into two slices. All nodes or none: what was
begun and cannot be finished is given back.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from edgewise.api.tenancy_slices import (
    DEFAULT_GRACE_SECONDS,
    EMPTY_BY,
    GRACE,
    LONGEST_GRACE,
    Slice,
    SliceState,
    SliceStatus,
)
from edgewise.kube.kinds.core import Node, Pod
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.tenancy.quota.quantities import texts
from edgewise.tenancy.slices.nodes import is_ending, shortage, slice_of, taint_of, together
from edgewise.tenancy.slices.seen import NodeSeen, PodSeen, Seen
from edgewise.workloads.deadlines import SKEW, moment

RESERVED, PROVISIONED = "Reserved", "Provisioned"
CONDITIONS = ConditionSet(needs=(RESERVED,), tells=(PROVISIONED,))
# What a pod gets that did not go in its time: a kill that the node still confirms. With 0 the API
# server would forget a pod whose processes run.
LAST_SECONDS = 2


class Goal(StrEnum):
    SHARED = "shared"
    RESERVED = "reserved"
    SLICED = "sliced"


class Step(StrEnum):
    """One write to a node."""

    RESERVE = "reserve"  # the label
    CLOSE = "close"  # the taint: only pods of the slice come
    END = "end"  # the second taint: none of them come, either
    REOPEN = "reopen"  # without the second one
    OPEN = "open"  # without taints; the label stays
    RETURN = "return"  # without anything of ours


class NodeWrite(msgspec.Struct, frozen=True, kw_only=True):
    node: Node
    step: Step
    slice: str
    empty_by: float = 0.0
    grace: int = DEFAULT_GRACE_SECONDS


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has to leave."""

    pod: Pod
    grace: int
    forced: bool  # deleted, whatever its budget says


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    writes: tuple[NodeWrite, ...] = ()
    removals: tuple[Removal, ...] = ()
    # Nodes that look empty, and whose pods have to be read before it is believed.
    prove: tuple[str, ...] = ()
    delete: bool = False  # the Slice itself: it has expired, or its claim is gone
    status: SliceStatus | None = None
    wake_at: float | None = None


def plan(seen: Seen, now: float) -> Plan:
    return _Planner(seen, now).plan()


class _Planner:
    def __init__(self, seen: Seen, now: float) -> None:
        self._seen = seen
        self._now = now
        self._writes: list[NodeWrite] = []
        self._removals: list[Removal] = []
        self._prove: list[str] = []
        self._moments: list[float] = []
        self._waits: list[str] = []  # for whom, in words

    def plan(self) -> Plan:
        found = self._seen.slice
        if found is None or self._over(found):
            for each in self._seen.held:
                self._node(each, Goal.SHARED)
            return self._answer(delete=found is not None)
        mine, others = self._kept(found)
        goal = Goal.SLICED if self._seen.employed else Goal.RESERVED
        for each in others:
            self._node(each, Goal.SHARED)
        complete = self._fill(found, mine)
        if complete or found.status.nodes:
            for each in mine:
                self._node(each, goal)
        return self._answer(status=self._status(found, mine, complete))

    def _answer(self, *, delete: bool = False, status: SliceStatus | None = None) -> Plan:
        return Plan(
            writes=tuple(self._writes),
            removals=tuple(self._removals),
            prove=tuple(self._prove),
            # The nodes know how long their pods have; the Slice need not wait for them.
            delete=delete,
            status=status,
            wake_at=min(self._moments, default=None),
        )

    def _over(self, found: Slice) -> bool:
        if self._seen.lost_claim:
            return True
        if found.spec.expires_at is None:
            return False
        end = found.spec.expires_at.timestamp()
        if end <= self._now:
            return True
        self._moments.append(end)
        return False

    # Taking nodes -------------------------------------------------------------------

    def _kept(self, found: Slice) -> tuple[list[NodeSeen], list[NodeSeen]]:
        """The nodes that it keeps, and those of which it has too many, or which lost the label."""
        labelled = [each for each in self._seen.held if slice_of(each.node) == self._seen.name]
        before = set(found.status.nodes)
        labelled.sort(
            key=lambda each: (each.name not in before, not self._is_closed(each), each.name)
        )
        mine = sorted(labelled[: found.spec.node_count], key=lambda each: each.name)
        names = {each.name for each in mine}
        return mine, [each for each in self._seen.held if each.name not in names]

    def _fill(self, found: Slice, mine: list[NodeSeen]) -> bool:
        missing = found.spec.node_count - len(mine)
        if missing <= 0:
            return True
        if len(self._seen.free) >= missing:
            for node in self._seen.free[:missing]:
                self._writes.append(NodeWrite(node=node, step=Step.RESERVE, slice=self._seen.name))
        elif not found.status.nodes:
            # It never had all of them: others may need those that it has.
            for each in mine:
                self._node(each, Goal.SHARED)
        return False

    # One node -----------------------------------------------------------------------

    def _node(self, each: NodeSeen, goal: Goal) -> None:
        closed, ending = self._is_closed(each), is_ending(each.node)
        if goal is Goal.SLICED:
            if not closed:
                self._write(each, Step.CLOSE)
            elif ending:
                self._write(each, Step.REOPEN)
            else:
                self._empty(each, [pod for pod in each.pods if pod.foreign])
            return
        if not closed and not ending:
            if goal is Goal.SHARED:
                self._write(each, Step.RETURN)
        elif not ending:
            self._write(each, Step.END)
        else:
            left = [pod for pod in each.pods if pod.inside]
            if self._empty(each, left):
                self._write(each, Step.RETURN if goal is Goal.SHARED else Step.OPEN)

    def _is_closed(self, each: NodeSeen) -> bool:
        return taint_of(each.node) == self._seen.name

    def _write(self, each: NodeSeen, step: Step) -> None:
        grace = self._grace(each)
        self._writes.append(
            NodeWrite(
                node=each.node,
                step=step,
                slice=self._seen.name,
                empty_by=self._now + grace,
                grace=grace,
            )
        )

    def _grace(self, each: NodeSeen) -> int:
        if self._seen.slice is not None:
            return self._seen.slice.spec.grace_seconds
        written = each.node.metadata.annotations.get(GRACE, "")
        known = written.isdecimal() and len(written) <= len(str(LONGEST_GRACE))
        return min(int(written), LONGEST_GRACE) if known else DEFAULT_GRACE_SECONDS

    def _empty(self, each: NodeSeen, left: list[PodSeen]) -> bool:
        """Whether nobody is left who has to go."""
        if not left:
            if not each.proven:
                self._prove.append(each.name)
            return each.proven
        deadline = _deadline(each.node, self._now)
        for one in left:
            self._remove(one.pod, deadline)
        if deadline > self._now:
            self._moments.append(deadline)
        count = len(left)
        self._waits.append(
            f"{count} {'pod has' if count == 1 else 'pods have'} to leave {each.name}, by "
            f"{datetime.fromtimestamp(max(0.0, deadline), UTC):%H:%M:%S} UTC"
        )
        return False

    def _remove(self, pod: Pod, deadline: float) -> None:
        forced = deadline <= self._now
        if pod.metadata.deletion_timestamp is not None:
            # It goes; perhaps too slowly.
            ends = datetime.fromisoformat(pod.metadata.deletion_timestamp).timestamp()
            if not forced or ends <= self._now + LAST_SECONDS + 1:
                return
        grace = LAST_SECONDS
        if not forced:
            own = pod.spec.get("terminationGracePeriodSeconds", 30)
            grace = max(1, min(int(own), math.ceil(deadline - self._now)))
        self._removals.append(Removal(pod=pod, grace=grace, forced=forced))

    # What people are told -----------------------------------------------------------

    def _status(self, found: Slice, mine: list[NodeSeen], complete: bool) -> SliceStatus:
        held = mine if complete or found.status.nodes else []
        short = shortage(found.spec, self._seen.matching, len(self._seen.free))
        reserved = Finding(RESERVED, True, "NodesReserved")
        if not complete:
            reserved = Finding(RESERVED, False, "NodesShort", short)
        sliced = complete and self._seen.employed
        ready = sliced and not self._writes and not self._waits and not self._prove
        return SliceStatus(
            observed_generation=found.metadata.generation,
            state=self._state(complete, ready),
            nodes=[each.name for each in held],
            resources=texts(together(each.node for each in held)),
            conditions=CONDITIONS.report(
                found.status.conditions,
                [reserved, self._provisioned(sliced, ready)],
                generation=found.metadata.generation,
                now=self._now,
            ),
        )

    def _state(self, complete: bool, ready: bool) -> str:
        if not complete:
            return f"{SliceState.FAILED}/NodesShort"
        if ready:
            return SliceState.PROVISIONED.value
        return SliceState.BOUND.value if self._seen.claimed else SliceState.RESERVED.value

    def _provisioned(self, sliced: bool, ready: bool) -> Finding:
        if ready:
            return Finding(PROVISIONED, True, "Alone", "no pod of another tenant is on its nodes")
        if self._waits:
            return Finding(PROVISIONED, False, "Draining", "; ".join(self._waits))
        if sliced:
            return Finding(PROVISIONED, False, "Draining", "its nodes are being emptied")
        if not self._seen.claimed:
            return Finding(PROVISIONED, False, "NoClaim", "no SliceClaim has it")
        return Finding(PROVISIONED, False, "NotUsed", "no SubNamespace uses its claim")


def _deadline(node: Node, now: float) -> float:
    found = moment(node.metadata.annotations.get(EMPTY_BY))
    # Somebody took it away, or wrote what no slice has: then the time is over.
    return now if found is None or found > now + LONGEST_GRACE + SKEW else found
