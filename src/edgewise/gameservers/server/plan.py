"""What should happen to one server. Pure.

A server that nobody wants to remove gets its pod, and one status write when it is ready. One
that is to go is asked first; if nobody plays on it, the operator takes it (`retire`) so that
nobody can, and deletes the pod when that is permitted. Whatever happened before, a crash
included, is read from the objects that are there.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from edgewise.api.games import (
    Failures,
    Operation,
    PortPolicy,
    ReadyBy,
    ServerPort,
    ServerState,
    ServerStatus,
    ShutdownAsked,
)
from edgewise.gameservers import names
from edgewise.gameservers.server.asking import Asked, asked, permission, said_by
from edgewise.gameservers.server.observed import Observed, PodFacts
from edgewise.gameservers.versions import version_of
from edgewise.kube.conditions import Condition
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.workloads.deadlines import moment, stamp

POD_READY = "PodReady"
DRAINING = "Draining"
TWO_BUDGETS = "TwoBudgets"
CONDITIONS = ConditionSet(needs=(POD_READY,), tells=(DRAINING, TWO_BUDGETS))

# Ports whose number on the node the operator chooses.
CHOSEN = (PortPolicy.DYNAMIC, PortPolicy.PASSTHROUGH)

# A server that only takes its time says so after this long; one in trouble says so at once.
QUIET_SECONDS = 30.0
FIRST_REST, LONGEST_REST = 1.0, 300.0
# One that found no free port is tried again this often at least: any server that ends frees one.
LONGEST_PORT_REST = 30.0
# `kubectl drain` tries an eviction again after five seconds, by name: it would meet the new pod.
MOVING_REST = 7.0
# A pod that lived for so long is not part of a row of failures.
RECOVERED = 600.0

_ENDED = (ServerState.SHUTDOWN, ServerState.UNHEALTHY)
_HAD_A_POD = (
    ServerState.STARTING,
    ServerState.READY,
    ServerState.RESERVED,
    ServerState.ALLOCATED,
    ServerState.DRAINING,
    *_ENDED,
)


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    add_finalizer: bool = False
    budget: bool = False  # make the budget of its namespace, which somebody deleted
    create_pod: bool = False
    retire: bool = False  # take it before anybody else does
    confirm_idle: bool = False  # ask the API server itself whether it is taken
    keep_log: bool = False  # of a game that failed, before its pod goes
    release: bool = False  # end its Allocation
    delete_pod: str = ""  # why; empty: it stays
    remove_finalizer: bool = False
    status: ServerStatus | None = None  # None: as it is
    deadline: float | None = None


def plan_server(seen: Observed, now: float) -> ServerPlan:
    if seen.pod is None:
        return _without_pod(seen, now)
    if seen.pod.orphan:
        gone = "it belongs to a Server of this name that is gone"
        return ServerPlan(delete_pod="" if seen.pod.deleting else gone)
    # A game that ends because its pod is deleted has not ended by itself.
    if seen.pod.deleting:
        return _leaving(seen, seen.pod, now)
    if seen.pod.ended:
        return _ended(seen, seen.pod, now)
    ask = asked(seen, now)
    if ask is not None:
        return _asked(seen, seen.pod, ask, now)
    return _wanted(seen, seen.pod, now)


# Without a pod --------------------------------------------------------------------------


def _without_pod(seen: Observed, now: float) -> ServerPlan:
    server, status = seen.server, seen.server.status
    if server.metadata.deleting:
        held = names.SERVER_FINALIZER in server.metadata.finalizers
        return ServerPlan(release=seen.taken is not None, remove_finalizer=held)
    if seen.namespace_ends:
        return ServerPlan()  # nothing can be made there, and its Server is deleted soon
    if _moves(seen):
        pause = Failures(until=stamp(now + MOVING_REST), message="its node is not to be used")
        finding = Finding(POD_READY, False, "Moving", "it gets a pod on another node in a moment")
        new = replace(_said(seen, now, ServerState.PENDING, finding), failures=pause)
        return ServerPlan(release=seen.taken is not None, status=new, deadline=now + MOVING_REST)
    state = _state_without_pod(seen)
    if state is not None:
        # One that its fleet replaces stays taken: nobody shall get it any more.
        ours = seen.taken is not None and (not seen.taken.retired or seen.taken.stale)
        new = _said(seen, now, state, Finding(POD_READY, False, "PodGone", "its pod is gone"))
        return ServerPlan(release=ours, status=new)
    rest = moment(status.failures.until) if status.failures else None
    if rest is not None and now < rest <= now + LONGEST_REST:
        return ServerPlan(release=seen.taken is not None, deadline=rest)
    return ServerPlan(
        add_finalizer=names.SERVER_FINALIZER not in server.metadata.finalizers,
        release=seen.taken is not None and (seen.taken.retired or seen.taken.stale),
        create_pod=True,
    )


def _moves(seen: Observed) -> bool:
    """Whether a server alone has just left a node that is not to be used."""
    asked_by = seen.server.status.shutdown
    return (
        not seen.fleet
        and seen.server.status.state == ServerState.DRAINING
        and asked_by is not None
        and asked_by.why in ("NodeCordoned", "NodeTainted", "Disrupted")
    )


def _state_without_pod(seen: Observed) -> ServerState | None:
    """How a server stands that gets no other pod; None: it gets one."""
    status, operation = seen.server.status, seen.server.spec.operation
    if status.state not in _HAD_A_POD:
        return None
    why = status.shutdown.why if status.shutdown else ""
    wished = status.state == ServerState.SHUTDOWN or why == "GameShutdown"
    if operation in (Operation.RETIRE, Operation.KILL) or wished:
        return ServerState.SHUTDOWN
    if not seen.fleet:
        return None
    return ServerState.SHUTDOWN if status.state == ServerState.DRAINING else ServerState.UNHEALTHY


# With a pod that has ended or is on its way out -----------------------------------------


def _ended(seen: Observed, pod: PodFacts, now: float) -> ServerPlan:
    server, status = seen.server, seen.server.status
    delete = "the game runs no longer"
    if server.metadata.deleting or seen.namespace_ends:
        return ServerPlan(delete_pod=delete)
    state = ServerState.SHUTDOWN if pod.succeeded else ServerState.UNHEALTHY
    finding = Finding(POD_READY, False, pod.reason or "Ended", pod.text or "the game has ended")
    free = seen.taken is not None and not seen.taken.retired
    if pod.succeeded or seen.fleet:
        # Once: its fleet removes what is Unhealthy.
        failed = not pod.succeeded and status.state != ServerState.UNHEALTHY
        new = _said(seen, now, state, finding)
        return ServerPlan(keep_log=failed, release=free, status=new)
    failures = _failed(status, pod, now)
    new = replace(_said(seen, now, state, finding), failures=failures)
    return ServerPlan(keep_log=True, release=free, status=new, delete_pod=delete)


def _failed(
    status: ServerStatus, pod: PodFacts, now: float, longest: float = LONGEST_REST
) -> Failures:
    """The first one is replaced at once, the next ones after a rest that doubles."""
    before = status.failures or Failures()
    last = moment(before.until)
    count = 1 if last is None or now - last > RECOVERED else before.count + 1
    rest = min(longest, rest_after(count))
    return Failures(count=count, until=stamp(now + rest), message=pod.text)


def rest_after(failures: int) -> float:
    """How long to wait before the next try, after so many failures in a row."""
    if failures <= 1:
        return 0.0
    return float(min(LONGEST_REST, FIRST_REST * 2 ** min(failures - 2, 20)))


def _leaving(seen: Observed, pod: PodFacts, now: float) -> ServerPlan:
    """Its pod is being deleted: by us, which the objects say, or by what nobody can refuse."""
    server, status = seen.server, seen.server.status
    ask = asked(seen, now)
    going = status.state in (ServerState.DRAINING, *_ENDED)
    if server.metadata.deleting or going:
        if seen.node.lost_since is None:
            return ServerPlan()
        # It may take for ever, so it is said.
        words = (
            f"its pod is deleted, but its node {pod.node} does not answer, so nobody knows whether "
            "the game has ended; if the machine is gone for good, delete the Node"
        )
        state = ServerState(status.state) if going else ServerState.DRAINING
        silent = Finding(POD_READY, False, "NodeSilent", words)
        return ServerPlan(status=_said(seen, now, state, silent, ask))
    text = (
        ask.text if ask else f"its pod was deleted{f' ({pod.disrupted})' if pod.disrupted else ''}"
    )
    state = ServerState.DRAINING if ask and not ask.broken else ServerState.UNHEALTHY
    return ServerPlan(
        status=_said(seen, now, state, Finding(POD_READY, False, "Deleted", text), ask)
    )


# Asked to end ---------------------------------------------------------------------------


def _asked(seen: Observed, pod: PodFacts, ask: Asked, now: float) -> ServerPlan:
    # In a namespace that ends nothing can be made, so nobody can take it either.
    idle = not seen.allocated
    untaken = seen.taken is None or seen.spent
    retire = idle and untaken and not seen.namespace_ends
    held = names.SERVER_FINALIZER in seen.server.metadata.finalizers
    may = permission(seen, pod, ask, now)
    state = ServerState.UNHEALTHY if ask.broken else ServerState.DRAINING
    if may.why:
        # The last word of a server that is deleted would be read by nobody.
        quiet = seen.server.metadata.deleting
        finding = Finding(POD_READY, False, ask.why, f"its pod is deleted: {may.why}")
        return ServerPlan(
            retire=retire,
            confirm_idle=idle and untaken and seen.namespace_ends,
            release=seen.spent,
            delete_pod=f"{ask.text}, and {may.why}",
            status=None if quiet else _said(seen, now, state, finding, ask),
        )
    finding = Finding(POD_READY, pod.ready, "Asked", "the game is asked to end")
    return ServerPlan(
        add_finalizer=not held and not seen.server.metadata.deleting,
        budget=not seen.budget and not seen.namespace_ends,
        retire=retire,
        release=seen.spent,
        status=_said(seen, now, state, finding, ask),
        deadline=may.later,
    )


# Wanted ---------------------------------------------------------------------------------


def _wanted(seen: Observed, pod: PodFacts, now: float) -> ServerPlan:
    server, said = seen.server, said_by(seen)
    # Whatever a fleet has taken, it removes: another one has its place already.
    retired = seen.taken is not None and seen.taken.retired and not seen.fleet
    deadlines = [_loss_judged(seen)]
    state, finding = _state(seen, pod, now)
    reserved = moment(said.reserved_until)
    if state is ServerState.RESERVED and reserved is not None and reserved > now:
        deadlines.append(reserved)
    begun = moment(server.metadata.creation_timestamp) or now
    starting = state in (ServerState.PENDING, ServerState.STARTING)
    troubled = pod.trouble or pod.no_port
    quiet = starting and not troubled and not server.status.state and begun + QUIET_SECONDS > now
    if quiet:
        deadlines.append(begun + QUIET_SECONDS)
    status = _said(seen, now, state, finding)
    # A Static port would be the same one again: such a pod waits for a node.
    elsewhere = pod.no_port and any(each.policy in CHOSEN for each in server.spec.ports)
    if elsewhere:
        status = replace(status, failures=_failed(server.status, pod, now, LONGEST_PORT_REST))
    return ServerPlan(
        # What wanted it gone has passed (a node is in use again): it may be allocated again.
        release=retired or seen.spent,
        budget=not seen.budget,
        status=None if quiet else status,
        delete_pod="no node has its port free: it gets another one" if elsewhere else "",
        deadline=min((each for each in deadlines if each is not None), default=None),
    )


def _loss_judged(seen: Observed) -> float | None:
    lost = seen.node.lost_since
    return None if lost is None else lost + seen.server.spec.node_loss_seconds


def _state(seen: Observed, pod: PodFacts, now: float) -> tuple[ServerState, Finding]:
    spec, said = seen.server.spec, said_by(seen)
    by_sdk = spec.ready is ReadyBy.SDK
    ready = bool(said.ready) and pod.running if by_sdk else pod.ready
    well = Finding(POD_READY, True, "PodReady", "")
    reserved = moment(said.reserved_until)
    if seen.allocated and pod.running:
        return ServerState.ALLOCATED, well
    if reserved is not None and reserved > now and pod.running:
        return ServerState.RESERVED, well
    if ready:
        held_back = spec.operation is Operation.MAINTAIN
        return (ServerState.RESERVED if held_back else ServerState.READY), well
    waits = "the game has not said that it is ready" if by_sdk and pod.ready else pod.text
    finding = Finding(POD_READY, False, pod.reason or "NotReady", waits)
    return (ServerState.STARTING if pod.node else ServerState.PENDING), finding


# The status -----------------------------------------------------------------------------


def _said(
    seen: Observed, now: float, state: ServerState, ready: Finding, ask: Asked | None = None
) -> ServerStatus:
    server, old = seen.server, seen.server.status
    pod = seen.pod
    found = old
    if pod is not None and pod.node:
        address, ports = addresses(seen, pod)
        found = replace(old, address=address, ports=ports, node=pod.node)
    return replace(
        found,
        observed_generation=server.metadata.generation,
        state=str(state),
        since=old.since if old.state == state and old.since else stamp(now),
        version=server.metadata.labels.get(names.VERSION) or old.version or version_of(server.spec),
        shutdown=_shutdown(ask) if ask else _kept_shutdown(old, state),
        conditions=_conditions(seen, now, ready, ask),
    )


def _shutdown(ask: Asked) -> ShutdownAsked:
    return ShutdownAsked(why=ask.why, since=stamp(ask.since), deadline=stamp(ask.deadline))


def _kept_shutdown(old: ServerStatus, state: ServerState) -> ShutdownAsked | None:
    """Of a server that has ended: why it was asked to."""
    return old.shutdown if state in _ENDED else None


def _conditions(seen: Observed, now: float, ready: Finding, ask: Asked | None) -> list[Condition]:
    findings = [ready]
    if ask is not None:
        words = f"{ask.text}; the game is asked to end, and is ended at {stamp(ask.deadline)}"
        findings.append(Finding(DRAINING, True, ask.why, words))
    if seen.other_budget:
        words = (
            f"the PodDisruptionBudget {seen.other_budget} selects its pod too: Kubernetes answers "
            "an eviction with an error for two, and a drain of its node stops; delete that one"
        )
        findings.append(Finding(TWO_BUDGETS, True, "OwnBudget", words))
    old = seen.server.status.conditions
    generation = seen.server.metadata.generation
    return CONDITIONS.report(old, findings, generation=generation, now=now)


def addresses(seen: Observed, pod: PodFacts) -> tuple[str, list[ServerPort]]:
    """Where players reach the server: at its node, if one of its ports leads there."""
    found = [
        ServerPort(
            name=port.name,
            port=pod.host_ports.get(port.name) or port.container_port or 0,
            protocol=str(port.protocol),
        )
        for port in seen.server.spec.ports
    ]
    return (seen.node.address or pod.host_ip) if pod.host_ports else pod.ip, found
