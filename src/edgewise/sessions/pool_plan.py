"""What should happen to the pods of a template that no session has. Pure.

Warm pods are kept ready; pods that sessions gave back wait for the next one until their time
is up; pods whose session is gone without a word are made clean first. Whatever is to be
removed is retired before: from then on no session can claim it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from edgewise.api.sessions import SessionTemplate
from edgewise.sessions.deadlines import SKEW
from edgewise.sessions.names import pod_name
from edgewise.sessions.observed import ClaimSeen, PodSeen
from edgewise.sessions.orders import CreatePod, ResetPod
from edgewise.sessions.podbook import CLEANING, RETIRED, Entry
from edgewise.sessions.pods import Made, made_from, reuse_of

# Pods that are made in one go; the rest follows, so that joins are not held up.
MOST_AT_ONCE = 20
# While joins keep coming, a pool that has more than its reserve is not refilled: each new pod
# would cost the API server as much as a join. After so many seconds without a join it is.
RESERVE = 0.25  # of the warm pods that are wanted
LULL = 1.0
MOST_IN_A_RUSH = 8


class PoolObserved(msgspec.Struct, kw_only=True):
    template: SessionTemplate
    pool: Mapping[str, Entry] = {}
    live_sessions: Set[str] = frozenset()  # uids of those in the cache
    gone_sessions: frozenset[str] = frozenset()  # of these a live read said so
    gone_pods: frozenset[str] = frozenset()
    resets: Mapping[str, bool] = {}
    resting_until: float = 0.0  # warm pods that failed by themselves are given a rest
    taken_at: float = 0.0  # when a join last took one of the waiting pods


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


class PoolPlan(msgspec.Struct, kw_only=True):
    confirm_sessions: dict[str, str] = {}  # uid -> name, of sessions that seem to be gone
    confirm_pods: list[str] = []
    create: list[CreatePod] = []
    retire: list[Retire] = []
    remove: list[PodSeen] = []  # retired before
    drop: list[ClaimSeen] = []  # Leases of pods that are gone
    restore: list[Restore] = []
    clean: list[Clean] = []
    reset: list[ResetPod] = []
    failed: list[PodSeen] = []
    warm: int = 0
    wanted: int = 0
    next: int = 0
    more: bool = False  # there is more to create
    deadline: float | None = None

    def by(self, moment: float) -> None:
        self.deadline = moment if self.deadline is None else min(self.deadline, moment)


def plan_pool(seen: PoolObserved, now: float) -> PoolPlan:
    return _Pool(seen, now).plan()


class _Pool:
    def __init__(self, seen: PoolObserved, now: float) -> None:
        self._seen = seen
        self._now = now
        self._template = seen.template
        self._plan = PoolPlan(next=seen.template.status.next)
        self._period = seen.template.spec.reutilize_timeout_seconds
        made = [made_from(each, seen.template.spec) for each in seen.template.spec.pod_templates]
        self._made = {each.name: each for each in made}
        self._warm: dict[str, list[PodSeen]] = {each.name: [] for each in made}

    def plan(self) -> PoolPlan:
        for name, entry in self._seen.pool.items():
            self._look_at(name, entry)
        for name, pods in self._warm.items():
            if self._template.metadata.deleting:
                self._plan.retire += [Retire(pod, None) for pod in pods]
            else:
                self._refill(self._made[name], pods)
        return self._plan

    def _look_at(self, name: str, entry: Entry) -> None:
        pod, lease, holder = entry.pod, entry.lease, entry.holder
        if pod is None:
            self._leftover(name, lease)
            return
        if not entry.born_for:
            self._plan.next = max(self._plan.next, pod.ordinal + 1)
        if pod.deleting:
            return
        if holder == RETIRED:
            self._plan.remove.append(pod)
        elif holder == CLEANING and lease is not None:
            self._cleaning(pod, lease)
        elif holder:
            self._held(pod, entry)
        elif pod.ended:
            self._plan.failed.append(pod)
            self._retire(pod, lease)
        elif lease is not None:
            self._waiting(pod, lease)
        elif pod.revision in self._warm:
            self._warm[pod.revision].append(pod)
        else:
            self._retire(pod, None)

    def _retire(self, pod: PodSeen, lease: ClaimSeen | None) -> None:
        self._plan.retire.append(Retire(pod, lease))

    def _restore(self, pod: PodSeen, lease: ClaimSeen | None) -> None:
        self._plan.restore.append(Restore(pod, lease, self._period))
        self._plan.by(self._now + self._period)

    # Sessions that are gone ---------------------------------------------------------

    def _leftover(self, name: str, lease: ClaimSeen | None) -> None:
        """The pod is gone. A session that had it looks after the Lease itself."""
        if lease is None or (lease.holder and self._alive(lease.holder, lease.holder_key)):
            return
        if name in self._seen.gone_pods:
            self._plan.drop.append(lease)
        else:
            self._plan.confirm_pods.append(name)

    def _alive(self, holder: str, key: str) -> bool:
        """Whether the session that holds a pod may still be there."""
        seen = self._seen
        if holder in (RETIRED, CLEANING) or holder in seen.gone_sessions:
            return False
        if holder not in seen.live_sessions:
            # The streams of pods and sessions are not in step: only a live read tells.
            self._plan.confirm_sessions[holder] = key
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
            self._plan.clean.append(Clean(pod, lease, reset.timeout_seconds, restarts))

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
            self._plan.reset.append(ResetPod(pod, reset, port, lease.version))
            self._plan.by(until)

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
            self._plan.by(until)

    def _refill(self, made: Made, pods: list[PodSeen]) -> None:
        plan, wanted = self._plan, made.template.warm_pods
        # Those that are not ready go first, then the youngest.
        pods.sort(key=lambda pod: (not pod.ready, pod.ordinal))
        plan.warm += sum(1 for pod in pods[:wanted] if pod.ready)
        plan.wanted += wanted
        for pod in pods[wanted:]:
            self._retire(pod, None)
        missing = wanted - len(pods)
        if missing > 0 and self._seen.resting_until > self._now:
            plan.by(self._seen.resting_until)
            return
        lull = self._seen.taken_at + LULL
        rush = self._now < lull <= self._now + LULL
        if rush and missing > 0 and len(pods) > RESERVE * wanted:
            plan.by(lull)
            return
        room = max(0, (MOST_IN_A_RUSH if rush else MOST_AT_ONCE) - len(plan.create))
        plan.more |= missing > room
        meta = self._template.metadata
        for _ in range(min(missing, room)):
            name = pod_name(meta.name, meta.uid, made.template.name, plan.next)
            plan.create.append(CreatePod(name, plan.next, made, pooled=True))
            plan.next += 1
