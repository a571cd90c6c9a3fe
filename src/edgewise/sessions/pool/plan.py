"""What should happen to the pods of a template that no session has. Pure.

Warm pods are kept ready; pods that sessions gave back wait for the next one until their time
is up; pods whose session is gone without a word are made clean first. Whatever is to be
removed is retired before: from then on no session can claim it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.api.sessions import DEFAULT_READY_SECONDS, SessionTemplate
from edgewise.sessions.bound import bound_manifest
from edgewise.sessions.indexes.pod_index import CLEANING, RETIRED, Entry
from edgewise.sessions.observed import NO_PORTS, ClaimSeen, FreePorts
from edgewise.sessions.orders import ApplyChild, CreatePod, RemoveChild, ResetPod
from edgewise.sessions.pods import ANYWHERE, Made, Spot, made_from, public_ports_of, reuse_of
from edgewise.sessions.steps.children import bound, missing_children
from edgewise.workloads.children import ChildSeen, WantedChild
from edgewise.workloads.deadlines import SKEW
from edgewise.workloads.host_ports import pick_host_ports
from edgewise.workloads.names import pod_name
from edgewise.workloads.pods_seen import PodSeen

# Pods that are made in one go; the rest follows, so that joins are not held up.
MOST_AT_ONCE = 20
# While joins keep coming, a pool that has more than its reserve is not refilled: each new pod
# would cost the API server as much as a join. After so many seconds without a join it is.
RESERVE = 0.25  # of the warm pods that are wanted
LULL = 1.0
MOST_IN_A_RUSH = 8


class PoolObserved(msgspec.Struct, frozen=True, kw_only=True):
    template: SessionTemplate
    pool: Mapping[str, Entry] = {}
    live_sessions: Mapping[str, str] = {}  # uid -> name, of those in the cache
    gone_sessions: frozenset[str] = frozenset()  # of these a live read said so
    gone_pods: frozenset[str] = frozenset()
    resets: Mapping[str, bool] = {}
    # Warm pods that failed by themselves are given a rest, by revision.
    resting_until: Mapping[str, float] = {}
    taken_at: float = 0.0  # when a join last took one of the waiting pods
    # Pods of nobody that are not ready, and since when that is known.
    unready_since: Mapping[str, float] = {}
    host_ports: FreePorts = NO_PORTS
    in_use: bool = False  # whether somebody is in a session of the template
    public_ports: int = 0  # that the gateways have, of each protocol
    # What is bound to all its sessions, by (kind, name).
    children: Mapping[tuple[str, str], ChildSeen] = {}


class Retire(msgspec.Struct, frozen=True):
    """Take a pod out of everybody's reach, then remove it."""

    pod: PodSeen
    lease: ClaimSeen | None


class Restore(msgspec.Struct, frozen=True):
    """Put a clean pod on the shelf, for so many seconds."""

    pod: PodSeen
    lease: ClaimSeen | None
    seconds: int


class Clean(msgspec.Struct, frozen=True):
    """Take a pod from a session that is gone, to make it clean."""

    pod: PodSeen
    lease: ClaimSeen | None
    seconds: int
    restarts: int  # so far, of the container that will be told to end


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    template: SessionTemplate
    now: float
    sessions: tuple[str, ...]  # names of those that follow the template
    confirm_sessions: Mapping[str, str]  # uid -> name, of sessions that seem to be gone
    confirm_pods: tuple[str, ...]
    create: tuple[CreatePod, ...]
    retire: tuple[Retire, ...]
    remove: tuple[PodSeen, ...]  # retired before
    drop: tuple[ClaimSeen, ...]  # Leases of pods that are gone
    restore: tuple[Restore, ...]
    clean: tuple[Clean, ...]
    reset: tuple[ResetPod, ...]
    apply: tuple[ApplyChild, ...]
    remove_children: tuple[RemoveChild, ...]
    failed: frozenset[str]  # revisions of warm pods that failed by themselves
    # Why warm pods are not ready, where it is more than that they are starting.
    reason: str = ""
    trouble: str = ""
    resting: bool = False  # pods failed, and the next ones wait
    warm: int = 0
    wanted: int = 0
    next: int = 0
    more: bool = False  # there is more to create
    public_ports: int | None = None  # where clients of the template need some
    deadline: float | None = None


def plan_pool(seen: PoolObserved, now: float) -> PoolPlan:
    return _Pool(seen, now).plan()


class _Pool:
    """The plan while it is made."""

    def __init__(self, seen: PoolObserved, now: float) -> None:
        self._seen = seen
        self._now = now
        self._template = seen.template
        self._period = seen.template.spec.reutilize_timeout_seconds
        made = [made_from(each, seen.template.spec) for each in seen.template.spec.pod_templates]
        self._made = {each.name: each for each in made}
        self._warm: dict[str, list[PodSeen]] = {each.name: [] for each in made}
        self._confirm_sessions: dict[str, str] = {}
        self._confirm_pods: list[str] = []
        self._create: list[CreatePod] = []
        self._retired: list[Retire] = []
        self._remove: list[PodSeen] = []
        self._drop: list[ClaimSeen] = []
        self._restored: list[Restore] = []
        self._clean: list[Clean] = []
        self._reset: list[ResetPod] = []
        self._deadlines: list[float] = []
        self._failed: set[str] = set()
        self._resting = self._more = False
        self._reason = self._trouble = ""
        self._ready = self._wanted = 0
        self._next = seen.template.status.next

    def plan(self) -> PoolPlan:
        for name, entry in self._seen.pool.items():
            self._look_at(name, entry)
        for name, pods in self._warm.items():
            if self._template.metadata.deleting:
                self._retired += [Retire(pod, None) for pod in pods]
            else:
                self._refill(self._made[name], pods)
        wanted, children = self._wanted_children(), self._seen.children
        return PoolPlan(
            template=self._template,
            now=self._now,
            sessions=tuple(self._seen.live_sessions.values()),
            confirm_sessions=self._confirm_sessions,
            confirm_pods=tuple(self._confirm_pods),
            create=tuple(self._create),
            retire=tuple(self._retired),
            remove=tuple(self._remove),
            drop=tuple(self._drop),
            restore=tuple(self._restored),
            clean=tuple(self._clean),
            reset=tuple(self._reset),
            apply=tuple(missing_children(wanted, children)),
            remove_children=tuple(
                RemoveChild(children[key]) for key in children.keys() - wanted.keys()
            ),
            failed=frozenset(self._failed),
            reason=self._reason,
            trouble=self._trouble,
            resting=self._resting,
            warm=self._ready,
            wanted=self._wanted,
            next=self._next,
            more=self._more,
            public_ports=(
                self._seen.public_ports if public_ports_of(self._template.spec) else None
            ),
            deadline=min(self._deadlines, default=None),
        )

    def _wanted_children(self) -> dict[tuple[str, str], WantedChild]:
        """While somebody is in a session of the template, what its author bound to all of them."""
        if not self._seen.in_use:
            return {}
        meta = self._template.metadata
        wanted = (
            bound(bound_manifest(resource, meta.name, meta.namespace))
            for resource in self._template.spec.resources
            if resource.scope == "Template"
        )
        return {(each.kind, each.name): each for each in wanted}

    def _look_at(self, name: str, entry: Entry) -> None:
        pod, lease, holder = entry.pod, entry.lease, entry.holder
        if pod is None:
            self._leftover(name, lease)
            return
        if not entry.born_for:
            self._next = max(self._next, pod.ordinal + 1)
        if pod.deleting:
            return
        if holder == RETIRED:
            self._remove.append(pod)
        elif holder == CLEANING and lease is not None:
            self._cleaning(pod, lease)
        elif holder:
            self._held(pod, entry)
        elif pod.ended or pod.crashing:
            self._fail(pod, lease)
        elif lease is not None:
            self._waiting(pod, lease)
        elif pod.revision not in self._warm:
            self._retire(pod, None)
        elif not pod.ready and self._late(pod):
            self._fail(pod, None)
        else:
            self._warm[pod.revision].append(pod)
            if pod.trouble:
                self._tell(pod)

    def _late(self, pod: PodSeen) -> bool:
        """Whether a warm pod had its time to become ready."""
        period = self._template.spec.ready_seconds
        period = DEFAULT_READY_SECONDS if period is None else period
        since = self._seen.unready_since.get(pod.name, self._now)
        if since + period > self._now:
            self._deadlines.append(since + period)
            return False
        return True

    def _fail(self, pod: PodSeen, lease: ClaimSeen | None) -> None:
        self._failed.add(pod.revision)
        self._tell(pod)
        self._retire(pod, lease)

    def _tell(self, pod: PodSeen) -> None:
        self._reason = self._reason or pod.reason or "NotReady"
        self._trouble = self._trouble or pod.trouble or pod.standing

    def _retire(self, pod: PodSeen, lease: ClaimSeen | None) -> None:
        self._retired.append(Retire(pod, lease))

    def _restore(self, pod: PodSeen, lease: ClaimSeen | None) -> None:
        self._restored.append(Restore(pod, lease, self._period))
        self._deadlines.append(self._now + self._period)

    # Sessions that are gone ---------------------------------------------------------

    def _leftover(self, name: str, lease: ClaimSeen | None) -> None:
        """The pod is gone. A session that had it looks after the Lease itself."""
        if lease is None or (lease.holder and self._alive(lease.holder, lease.holder_key)):
            return
        if name in self._seen.gone_pods:
            self._drop.append(lease)
        else:
            self._confirm_pods.append(name)

    def _alive(self, holder: str, key: str) -> bool:
        """Whether the session that holds a pod may still be there."""
        seen = self._seen
        if holder in (RETIRED, CLEANING) or holder in seen.gone_sessions:
            return False
        if holder not in seen.live_sessions:
            # The streams of pods and sessions are not in step: only a live read tells.
            self._confirm_sessions[holder] = key
        return True

    def _held(self, pod: PodSeen, entry: Entry) -> None:
        lease = entry.lease
        if self._alive(entry.holder, lease.holder_key if lease else entry.born_key):
            return
        made = self._reusable(pod)
        if made is None or not pod.ready:
            self._retire(pod, lease)
        elif made.template.reset is None:
            self._restore(pod, lease)
        else:
            reset = made.template.reset
            restarts = pod.restarts_of(reset.restart_container)
            self._clean.append(Clean(pod, lease, reset.timeout_seconds, restarts))

    def _reusable(self, pod: PodSeen) -> Made | None:
        """The revision of a pod that another session may have."""
        spec, meta = self._template.spec, self._template.metadata
        if reuse_of(spec) != "Template" or not self._period or meta.deleting or pod.ended:
            return None
        return self._made.get(pod.revision)

    def _cleaning(self, pod: PodSeen, lease: ClaimSeen) -> None:
        made = self._reusable(pod)
        reset = made.template.reset if made is not None else None
        if made is None or reset is None:
            self._retire(pod, lease)
            return
        done = self._seen.resets.get(pod.uid)
        if pod.restarts_of(reset.restart_container) > lease.restarts:
            done = True if pod.ready else None
        until = min(lease.until or self._now, self._now + reset.timeout_seconds + SKEW)
        if done:
            self._restore(pod, lease)
        elif done is False or until <= self._now:
            self._retire(pod, lease)
        else:
            ports = made.revision.ports
            port = reset.port or (ports[0].port if ports else 80)
            self._reset.append(ResetPod(pod, reset, port, lease.version))
            self._deadlines.append(until)

    # Pods that wait -----------------------------------------------------------------

    def _waiting(self, pod: PodSeen, lease: ClaimSeen) -> None:
        if self._reusable(pod) is None:
            self._retire(pod, lease)
            return
        until = lease.until if lease.until is not None else self._now + self._period
        if until > self._now + self._period + SKEW:
            # The clock was set back, or the template shortened: the time begins anew.
            self._restore(pod, lease)
        elif until <= self._now:
            self._retire(pod, lease)
        else:
            self._deadlines.append(until)

    def _refill(self, made: Made, pods: list[PodSeen]) -> None:
        wanted = made.template.warm_pods
        # Those that are not ready go first, then the youngest.
        pods.sort(key=lambda pod: (not pod.ready, pod.ordinal))
        self._ready += sum(1 for pod in pods[:wanted] if pod.ready)
        self._wanted += wanted
        for pod in pods[wanted:]:
            self._retire(pod, None)
        missing = wanted - len(pods)
        rested = self._seen.resting_until.get(made.name, 0.0)
        if missing > 0 and rested > self._now:
            self._deadlines.append(rested)
            self._resting = True
            return
        lull = self._seen.taken_at + LULL
        rush = self._now < lull <= self._now + LULL
        if rush and missing > 0 and len(pods) > RESERVE * wanted:
            self._deadlines.append(lull)
            return
        room = max(0, (MOST_IN_A_RUSH if rush else MOST_AT_ONCE) - len(self._create))
        self._more |= missing > room
        meta = self._template.metadata
        for _ in range(min(missing, room)):
            name = pod_name(meta.name, meta.uid, made.template.name, self._next)
            order = CreatePod(name, self._next, made, pooled=True, spot=self._spot(made, name))
            self._create.append(order)
            self._next += 1

    def _spot(self, made: Made, pod: str) -> Spot:
        if made.revision.exposure != "HostPort":
            return ANYWHERE
        return Spot(pick_host_ports(made.revision.ports, pod, self._seen.host_ports.pick))
