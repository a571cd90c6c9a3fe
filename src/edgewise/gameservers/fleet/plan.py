"""How many servers a fleet should have, which go and which come. Pure.

What is broken goes and is replaced at once, the next times after a rest. Servers that are asked
to end do not count any more, so nothing waits for an old server to go. A fleet that is too large
removes all it must in one pass: first those that nobody misses, allocated ones last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from edgewise.api.games import (
    AgePriority,
    Failures,
    Fleet,
    FleetStatus,
    Operation,
    Scheduling,
    ServerState,
)
from edgewise.gameservers import names
from edgewise.gameservers.outgoing import outgoing_of
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.workloads.deadlines import moment, stamp

ENOUGH = "Enough"
FAILING = "Failing"
MIXED = "Mixed"
CONDITIONS = ConditionSet(needs=(ENOUGH,), fears=(FAILING,), tells=(MIXED,))

# Servers that are made in one pass; the rest follows in the next.
MOST_AT_ONCE = 200
# Numbers that are reserved beyond what is needed now: each block is one write.
SPARE_NUMBERS = 16
FIRST_REST, LONGEST_REST = 1.0, 300.0
RECOVERED = 600.0

_BROKEN = frozenset((ServerState.UNHEALTHY, ServerState.SHUTDOWN))
_ENDING = frozenset((*_BROKEN, ServerState.DRAINING))
_NOT_READY = frozenset(("", ServerState.PENDING, ServerState.STARTING))
_LAST_OPERATIONS = frozenset((Operation.RETIRE, Operation.KILL))


class ServerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a server to its fleet."""

    name: str
    uid: str = ""
    number: int = -1
    version: str = ""
    state: str = ""
    deleting: bool = False
    created: str = ""
    allocated: bool = False
    retired: bool = False
    allowed: bool = False
    node: str = ""
    priority: int = 0
    operation: Operation = Operation.NONE
    marked: bool = False  # has the labels of servers above the number
    trouble: str = ""

    @property
    def left_over(self) -> bool:
        """Whether it was taken to be removed, and is not asked to end yet."""
        return self.retired and not self.deleting and self.state not in _ENDING

    @property
    def counts(self) -> bool:
        """Whether it is one of the servers that the fleet should have."""
        return not (
            self.deleting
            or self.retired
            or self.state in _ENDING
            or self.operation in _LAST_OPERATIONS
        )


class ListSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An Allocation that retires servers of the fleet."""

    name: str
    uid: str = ""
    over: bool = False  # all its servers are gone


class FleetObserved(msgspec.Struct, frozen=True, kw_only=True):
    fleet: Fleet
    servers: Sequence[ServerSeen] = ()
    version: str = ""  # of what the fleet's spec says now
    # Numbers that this operator has reserved and not used: from, and up to but without.
    numbers: tuple[int, int] = (0, 0)
    namespace_ends: bool = False
    # Nodes that take pods, if each server needs one of its own; None: many fit on one.
    nodes: int | None = None
    lists: Sequence[ListSeen] = ()


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    # Numbers that are to be ours alone, from and up to but without; empty: we have enough.
    reserve: tuple[int, int] | None = None
    create: tuple[int, ...] = ()  # numbers of servers to make
    retire: tuple[ServerSeen, ...] = ()  # idle: take them first, the next pass deletes them
    delete: tuple[ServerSeen, ...] = ()
    forget: tuple[ListSeen, ...] = ()  # lists of servers that are gone
    mark: tuple[ServerSeen, ...] = ()
    status: FleetStatus
    more: bool = False
    deadline: float | None = None
    done: bool = False  # a fleet that is deleted has nothing left
    failed: str = ""  # why a server failed, for an event


def plan_fleet(seen: FleetObserved, now: float) -> FleetPlan:
    fleet = seen.fleet
    if fleet.metadata.deleting:
        return _ending(seen, now)
    counted = [each for each in seen.servers if each.counts]
    broken = [each for each in seen.servers if not each.deleting and each.state in _BROKEN]
    failures = _failures(seen, broken, now)
    # Taken before a crash and not deleted: nobody else can have them any more.
    broken += [each for each in seen.servers if each.left_over]
    missing = fleet.spec.scaling.replicas - len(counted)
    outgoing = outgoing_of(fleet.metadata.annotations)
    if missing < 0:
        victims = shrink(fleet, counted, -missing)
        if outgoing.keeps_allocated:
            victims = [each for each in victims if not each.allocated]
        return _plan(seen, now, failures, broken, victims=victims)
    if outgoing.makes_none:
        missing = 0
    rest = moment(failures.until) if failures else None
    if missing and rest is not None and now < rest <= now + LONGEST_REST:
        return _plan(seen, now, failures, broken, deadline=rest, missing=missing)
    if seen.namespace_ends:
        missing = 0
    return _plan(seen, now, failures, broken, missing=missing, grow=True)


def shrink(fleet: Fleet, servers: Sequence[ServerSeen], count: int) -> list[ServerSeen]:
    """Those that go first."""
    scaling = fleet.spec.scaling
    on_node = Counter(each.node for each in servers)
    packed = fleet.spec.scheduling is Scheduling.PACKED
    newest = scaling.age_priority is AgePriority.NEWEST_FIRST

    # Of two that were made in the same second the number decides.
    by_age = sorted(servers, key=lambda each: (each.created, each.number), reverse=newest)

    def rank(server: ServerSeen) -> tuple[bool, bool, int, bool, int]:
        return (
            server.allocated,
            server.state not in _NOT_READY,
            -server.priority,
            not (server.allowed and scaling.prioritize_allowed),
            on_node[server.node] if packed else -on_node[server.node],
        )

    return sorted(by_age, key=rank)[:count]


def rest_after(failures: int) -> float:
    """After the first failure none; then a second, two, four, up to five minutes."""
    if failures <= 1:
        return 0.0
    return float(min(LONGEST_REST, FIRST_REST * 2 ** min(failures - 2, 20)))


# Inside ---------------------------------------------------------------------------------


def _plan(
    seen: FleetObserved,
    now: float,
    failures: Failures | None,
    broken: Sequence[ServerSeen],
    *,
    victims: Sequence[ServerSeen] = (),
    missing: int = 0,
    grow: bool = False,
    deadline: float | None = None,
) -> FleetPlan:
    first, last = seen.numbers
    wanted = min(missing, MOST_AT_ONCE) if grow else 0
    ours = range(first, min(first + wanted, last))
    reserve = None
    if wanted > len(ours):
        # One write for all that are missing, and a few more for those that will be replaced.
        taken = max(seen.fleet.status.next, _above(seen))
        begin = first if first < last == taken else taken
        reserve = (begin, begin + missing + SPARE_NUMBERS)
    overflow = seen.fleet.spec.overflow
    marks = bool(overflow.labels or overflow.annotations)
    idle = [each for each in victims if not each.allocated]
    failed = next((each.trouble for each in broken if each.state == ServerState.UNHEALTHY), "")
    failed_at = moment(failures.until) if failures else None
    if deadline is None and failed_at is not None:
        deadline = failed_at + RECOVERED  # nothing else would take the word back that servers fail
    return FleetPlan(
        reserve=reserve,
        create=() if reserve else tuple(ours),
        retire=tuple(idle),
        delete=(*broken, *(each for each in victims if each.allocated)),
        forget=_over(seen),
        mark=tuple(each for each in victims if marks and not each.marked),
        status=_status(seen, now, failures, missing),
        more=grow and (reserve is not None or missing > wanted),
        deadline=deadline,
        failed=failed,
    )


def _above(seen: FleetObserved) -> int:
    return max((each.number + 1 for each in seen.servers), default=0)


def _ending(seen: FleetObserved, now: float) -> FleetPlan:
    """All are asked to end, those that are taken too; the fleet goes when they have gone."""
    here = [each for each in seen.servers if not each.deleting]
    # One list takes many that are idle; in a namespace that ends, nothing can be made.
    idle = [
        each
        for each in here
        if not (each.allocated or each.retired or each.state in _ENDING or seen.namespace_ends)
    ]
    taken = {each.name for each in idle}
    return FleetPlan(
        retire=tuple(idle),
        delete=tuple(each for each in here if each.name not in taken),
        forget=_over(seen),
        status=_status(seen, now, seen.fleet.status.failures, 0),
        done=not seen.servers and not seen.lists,
    )


def _over(seen: FleetObserved) -> tuple[ListSeen, ...]:
    return tuple(each for each in seen.lists if each.over)


def _failures(seen: FleetObserved, broken: Sequence[ServerSeen], now: float) -> Failures | None:
    before = seen.fleet.status.failures
    if before is not None:
        last = moment(before.until)
        if before.version != seen.version or last is None or now - last >= RECOVERED:
            before = None
    unwell = [
        each
        for each in broken
        if each.state == ServerState.UNHEALTHY and each.version == seen.version
    ]
    if not unwell:
        return before
    count = (before.count if before else 0) + 1
    return Failures(
        count=count,
        until=stamp(now + rest_after(count)),
        version=seen.version,
        message=unwell[0].trouble,
    )


def _status(
    seen: FleetObserved, now: float, failures: Failures | None, missing: int
) -> FleetStatus:
    fleet, old = seen.fleet, seen.fleet.status
    here = [each for each in seen.servers if not each.deleting]
    states = Counter(each.state or str(ServerState.PENDING) for each in here)
    allocated = sum(each.allocated for each in here)
    counted = [each for each in here if each.counts]
    ready = sum(each.state == ServerState.READY for each in counted)
    starting = sum(each.state in _NOT_READY for each in counted)
    versions = Counter(each.version for each in here if each.version)
    draining = len(seen.servers) - len(counted)
    return msgspec.structs.replace(
        old,
        observed_generation=fleet.metadata.generation,
        replicas=len(counted),
        ready=ready,
        allocated=allocated,
        reserved=states[ServerState.RESERVED],
        starting=starting,
        draining=draining,
        unhealthy=states[ServerState.UNHEALTHY],
        version=seen.version,
        versions=dict(sorted(versions.items())),
        selector=f"{names.FLEET}={fleet.metadata.name}",
        failures=failures,
        conditions=CONDITIONS.report(
            old.conditions,
            _findings(seen, failures, now, lacking=missing + starting, mixed=len(versions) > 1),
            generation=fleet.metadata.generation,
            now=now,
        ),
    )


def _findings(
    seen: FleetObserved, failures: Failures | None, now: float, *, lacking: int, mixed: bool
) -> list[Finding]:
    wanted = seen.fleet.spec.scaling.replicas
    text = f"not all of {wanted} servers are ready" if lacking else ""
    why = "Starting" if lacking else "AllReady"
    if lacking and seen.nodes is not None and wanted > seen.nodes:
        why = "TooFewNodes"
        text += (
            f": spec.spec.ports has one with the policy Static, which is there once on each node, "
            f"and {seen.nodes} take pods; lower spec.scaling.replicas, add nodes, or take Dynamic"
        )
    findings = [Finding(ENOUGH, lacking <= 0, why, text)]
    until = moment(failures.until) if failures else None
    failing = failures is not None and failures.count > 1 and until is not None
    if failing and failures is not None:
        words = f"{failures.count} servers failed in a row, the last one: {failures.message}"
        if until is not None and until > now:
            words += f"; the next one is tried at {failures.until}"
        kept = names.failed_starts_of(seen.fleet.metadata.name)
        words += f"; the ends of their logs are in the ConfigMap {kept}"
        findings.append(Finding(FAILING, True, "ServersFail", words))
    else:
        findings.append(Finding(FAILING, False, "NoneFailed", ""))
    if mixed:
        words = "a changed spec is for new servers only; a GameType would replace the old ones"
        findings.append(Finding(MIXED, True, "SpecChanged", words))
    return findings
