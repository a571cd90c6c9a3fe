"""The template controller: keeps pods warm, looks after the pool, and holds a template that
is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from edgewise.api.sessions import PortClaim, SessionTemplate, SessionTemplateStatus
from edgewise.kube.coordination import Lease
from edgewise.kube.core import Node, Pod
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.objects import Key, Object
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, Watch, mapped, read
from edgewise.sessions import claims, names
from edgewise.sessions.apply import (
    REFUSALS,
    all_of,
    apply_child,
    known_pod,
    remove_child,
    template_reference,
)
from edgewise.sessions.books import Books, by_template, by_template_in_use
from edgewise.sessions.bound import bound_manifest
from edgewise.sessions.child_kinds import BOUND_KINDS, child_object
from edgewise.sessions.children import Wanted, bound
from edgewise.sessions.draft import named
from edgewise.sessions.held import HeldSession
from edgewise.sessions.host_ports import pick_host_ports
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.observe import children_of
from edgewise.sessions.observed import ClaimSeen, PodSeen, TemplateSeen
from edgewise.sessions.orders import CreatePod
from edgewise.sessions.podbook import Entry
from edgewise.sessions.pods import Spot, build_pod
from edgewise.sessions.pool_plan import Clean, PoolObserved, PoolPlan, Restore, Retire, plan_pool
from edgewise.sessions.resetting import Cleaner, Resets

# The pool is looked after in the background: changes of this much time are taken together.
AT_MOST_EVERY = 0.2
# Counts in the status follow no faster than this.
COUNTS_EVERY = 2.0
LOOKS = 3

# The sessions' own stream wakes the template; this is for one that stays silent.
UNSEEN_SECONDS = 1.0
TEMPLATE = ConditionSet(needs=("WarmPodsReady",), fears=("Degraded",), tells=("InUse",))
RESTS = Backoff(first=1.0, most=300.0)


def template_of_label(obj: Object, cache: CacheView) -> Iterable[Key]:
    uid = obj.metadata.labels.get(names.TEMPLATE_UID)
    found = cache[SessionTemplate].by(by_uid, uid) if uid else ()
    if found:
        return [each.key for each in found]
    name = obj.metadata.labels.get(names.TEMPLATE)
    return (Key(obj.metadata.namespace, name),) if name else ()


def by_uid(template: SessionTemplate) -> str:
    return template.metadata.uid


class TemplateController(Controller[SessionTemplate]):
    workers = 4
    finalizer = names.TEMPLATE_FINALIZER
    wakes_on_status = False

    def __init__(
        self, books: Books, cleaner: Cleaner, *, metrics: SessionMetrics | None = None
    ) -> None:
        self._books = books
        self.metrics = metrics or SessionMetrics()
        self._facts: dict[Key, tuple[str, bool]] = {}
        self._last: dict[str, float] = {}
        self._counted: dict[str, float] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        # How many pods were waiting for somebody, and when they last became fewer.
        self._waiting: dict[str, tuple[int, float]] = {}
        self.wake: Callable[[Key], None] = lambda _: None
        self.resets = Resets(cleaner, self._wake)
        self.watches = (
            mapped(Pod, template_of_label, labels=names.POD_TEMPLATE),
            mapped(Lease, template_of_label, labels=names.TEMPLATE_UID),
            mapped(HeldSession, self._template_of_session),
            read(PortClaim),
            read(Node),
            *self._child_watches(),
        )

    def _child_watches(self) -> tuple[Watch, ...]:
        return tuple(mapped(kind, template_of_label, labels=names.CHILD) for kind in BOUND_KINDS)

    def _wake(self, key: Key) -> None:
        self.wake(key)

    def _template_of_session(self, session: HeldSession, cache: CacheView) -> Iterable[Key]:
        """Only when a session comes, goes, or gets its first or loses its last client: what
        else happens in sessions does not concern the template."""
        current = cache[HeldSession].get(session.key)
        fact = None
        if current is not None and (ref := by_template(current)) is not None:
            fact = (ref, by_template_in_use(current) is not None)
        before = self._facts.get(session.key)
        if fact == before:
            return
        if fact is None:
            self._facts.pop(session.key, None)
        else:
            self._facts[session.key] = fact
        for each in {each[0] for each in (before, fact) if each is not None}:
            namespace, _, name = each.partition("/")
            yield Key(namespace, name)

    # One pass -----------------------------------------------------------------------

    async def reconcile(self, template: SessionTemplate) -> Requeue | None:
        self._books.follow(self.cache)
        uid, now = template.metadata.uid, self.clock()
        wait = self._last.get(uid, 0.0) + AT_MOST_EVERY - now
        if 0 < wait <= AT_MOST_EVERY:
            return Requeue.after(wait)
        self._last[uid] = now
        plan = await self._tend(template)
        refused = await self._tend_group(template)
        later = await self._write_status(template, plan, refused)
        if plan.more:
            return Requeue.after(AT_MOST_EVERY)
        moments = [moment for moment in (plan.deadline, later) if moment is not None]
        return Requeue.at(min(moments, default=None))

    async def finalize(self, template: SessionTemplate) -> Requeue | None:
        """A template in use stays, and says why."""
        self._books.follow(self.cache)
        if not self._sessions_of(template) and await self._has_unseen_sessions(template):
            return Requeue.after(UNSEEN_SECONDS)
        plan = await self._tend(template)
        if self._sessions_of(template):
            await self._tend_group(template)
            await self._write_status(template, plan, {})
            return Requeue.after(30.0)
        await self._remove_group(template)
        meta = template.metadata
        left = self._books.pods.pool_of(meta.namespace, meta.uid)
        if left:
            return Requeue.after(1.0)
        self._last.pop(template.metadata.uid, None)
        self._waiting.pop(template.metadata.uid, None)
        return None

    async def gone(self, key: Key) -> None:
        """Deleted by force: the pods that it lent or kept warm go with it."""
        self._books.follow(self.cache)
        label = str(key)
        pods = [
            pod for pod in self.cache[Pod].by(by_template_label, label) if not pod.metadata.deleting
        ]
        if not pods:
            return
        try:
            found = await self.api.get(SessionTemplate, key.name, key.namespace)
        except NotFound:
            living = ""
        else:
            living = found.metadata.uid

        async def remove(pod: Pod) -> None:
            if pod.metadata.labels.get(names.TEMPLATE_UID) != living:
                await self.api.delete(pod)

        await all_of((remove, pods))

    def _sessions_of(self, template: SessionTemplate) -> list[HeldSession]:
        return self.cache[HeldSession].by(by_template, str(template.key))

    async def _has_unseen_sessions(self, template: SessionTemplate) -> bool:
        """Sessions and templates come by streams of their own: a session that was made before
        its template was deleted may be seen after that."""
        namespace = template.metadata.namespace
        found = (await self.api.list(HeldSession, namespace)).items
        return any(by_template(session) == str(template.key) for session in found)

    # The pool -----------------------------------------------------------------------

    async def _tend(self, template: SessionTemplate) -> PoolPlan:
        plan = await self._decide(template)
        await self._carry_out(template, plan)
        return plan

    async def _decide(self, template: SessionTemplate) -> PoolPlan:
        uid = template.metadata.uid
        gone_sessions: set[str] = set()
        gone_pods: set[str] = set()
        for _ in range(LOOKS):
            pool = self._books.pods.pool_of(template.metadata.namespace, uid)
            seen = PoolObserved(
                template=template,
                pool=pool,
                live_sessions={each.metadata.uid for each in self._sessions_of(template)},
                gone_sessions=frozenset(gone_sessions),
                gone_pods=frozenset(gone_pods),
                resets=self._results(pool.values()),
                resting_until=self._failures.get(uid, (0, 0.0))[1],
                taken_at=self._last_taken(uid, pool),
            )
            plan = plan_pool(seen, self.clock())
            if not plan.confirm_sessions and not plan.confirm_pods:
                return plan
            namespace = template.metadata.namespace
            for session_uid, name in plan.confirm_sessions.items():
                if not await self._lives(session_uid, name, namespace):
                    gone_sessions.add(session_uid)
            for pod in plan.confirm_pods:
                try:
                    await self.api.get(Pod, pod, namespace)
                except NotFound:
                    gone_pods.add(pod)
        raise TryAgainNow(f"the pool of {template.key} is not known for certain")

    def _results(self, pool: Iterable[Entry]) -> dict[str, bool]:
        found = {}
        for entry in pool:
            if entry.pod is not None and entry.lease is not None:
                result = self.resets.result(entry.pod.uid, entry.lease.version)
                if result is not None:
                    found[entry.pod.uid] = result
        return found

    def _last_taken(self, uid: str, pool: Mapping[str, Entry]) -> float:
        waiting = sum(1 for entry in pool.values() if entry.pod is not None and not entry.holder)
        before, taken_at = self._waiting.get(uid, (0, 0.0))
        if waiting < before:
            taken_at = self.clock()
        self._waiting[uid] = (waiting, taken_at)
        return taken_at

    async def _lives(self, uid: str, name: str, namespace: str) -> bool:
        if not name:
            return False
        try:
            return (await self.api.get(HeldSession, name, namespace)).metadata.uid == uid
        except NotFound:
            return False

    async def _carry_out(self, template: SessionTemplate, plan: PoolPlan) -> None:
        if plan.failed:
            uid = template.metadata.uid
            count, last = self._failures.get(uid, (0, 0.0))
            count = count + 1 if self.clock() - last < RESTS.most * 2 else 1
            self._failures[uid] = (count, self.clock() + RESTS.delay(count, lambda: 1.0))
            names_ = named(pod.name for pod in plan.failed)
            self.events.warning(template, "WarmPodFailed", f"warm pods ended: {names_}")
        work = _PoolWork(self, template)
        await all_of(
            (work.create, plan.create),
            (work.retire, plan.retire),
            (work.remove, plan.remove),
            (work.drop, plan.drop),
            (work.restore, plan.restore),
            (work.clean, plan.clean),
        )
        for order in plan.reset:
            self.resets.start(template.key, order)
        if work.refused:
            self._failures[template.metadata.uid] = (1, self.clock() + 10.0)

    # Bound to all sessions of the template ------------------------------------------

    def _group(self, template: SessionTemplate) -> dict[tuple[str, str], Wanted]:
        in_use = self.cache[HeldSession].by(by_template_in_use, str(template.key))
        meta = template.metadata
        wanted = [
            bound(bound_manifest(resource, meta.name, meta.namespace))
            for resource in template.spec.resources
            if resource.scope == "Template" and in_use
        ]
        return {(each.kind, each.name): each for each in wanted}

    async def _tend_group(self, template: SessionTemplate) -> dict[str, str]:
        wanted = self._group(template)
        refused: dict[str, str] = {}
        meta = template.metadata
        seen = children_of(names.TEMPLATE_UID, meta, self.cache, BOUND_KINDS)
        for key, each in wanted.items():
            there = seen.get(key)
            if there is not None and there.digest == each.digest:
                continue
            child = child_object(
                each.build(),
                digest=each.digest,
                labels={names.TEMPLATE: meta.name, names.TEMPLATE_UID: meta.uid},
                owner=template.owner_reference(),
            )
            try:
                await apply_child(self.api, child, new=there is None)
            except REFUSALS as error:
                refused[each.name] = f"{each.kind} {each.name}: {error}"
        for key in seen.keys() - wanted.keys():
            await remove_child(self.api, seen[key], meta.namespace)
        return refused

    async def _remove_group(self, template: SessionTemplate) -> None:
        meta = template.metadata
        for child in children_of(names.TEMPLATE_UID, meta, self.cache, BOUND_KINDS).values():
            await remove_child(self.api, child, meta.namespace)

    # Status -------------------------------------------------------------------------

    async def _write_status(
        self, template: SessionTemplate, plan: PoolPlan, refused: dict[str, str]
    ) -> float | None:
        """Counts change with every join, and are written only now and then; the answer is
        when to come back for them."""
        users = self._sessions_of(template)
        meta, old, now = template.metadata, template.status, self.clock()
        missing = plan.wanted - plan.warm
        findings = [
            Finding("WarmPodsReady", False, "Starting", f"{missing} warm pods are not ready")
            if missing > 0
            else Finding("WarmPodsReady", True, "AllReady"),
            Finding("Degraded", True, "ResourceRefused", "; ".join(refused.values())[:1000])
            if refused
            else Finding("Degraded", False, "AsExpected"),
        ]
        if meta.deleting:
            who = named(each.metadata.name for each in users)
            findings.append(
                Finding("InUse", True, "SessionsLeft", f"it is deleted when these are gone: {who}")
            )
        self.metrics.warm_pods.labels(meta.namespace, meta.name).set(plan.warm)
        conditions = TEMPLATE.report(old.conditions, findings, generation=meta.generation, now=now)
        new = SessionTemplateStatus(
            observed_generation=meta.generation,
            next=max(plan.next, old.next),
            warm=plan.warm,
            sessions=len(users),
            conditions=conditions,
        )
        urgent = msgspec.structs.replace(new, warm=old.warm, sessions=old.sessions) != old
        last = self._counted.get(meta.uid, 0.0)
        if new == old:
            return None
        if not urgent and 0 <= now - last < COUNTS_EVERY:
            return last + COUNTS_EVERY
        self._counted[meta.uid] = now
        await self.api.write_status(template, new)
        return None


def by_template_label(pod: Pod) -> str | None:
    name = pod.metadata.labels.get(names.TEMPLATE)
    return f"{pod.metadata.namespace}/{name}" if name else None


class _PoolWork:
    """The writes of one pass over a pool."""

    def __init__(self, controller: TemplateController, template: SessionTemplate) -> None:
        self._api = controller.api
        self._books = controller._books
        self._now = controller.clock()
        self._template = template
        self._namespace = template.metadata.namespace
        self.refused: list[str] = []

    async def create(self, order: CreatePod) -> None:
        meta = self._template.metadata
        seen = TemplateSeen(name=meta.name, uid=meta.uid)
        host_ports: dict[str, int] = {}
        if order.made.revision.exposure == "HostPort":
            host_ports = pick_host_ports(order.made, order.name, self._pick)
        pod = build_pod(
            order.made,
            order.name,
            self._namespace,
            owner=template_reference(seen),
            labels={names.TEMPLATE: meta.name, names.TEMPLATE_UID: meta.uid},
            ordinal=order.ordinal,
            spot=Spot(host_ports),
        )
        try:
            await self._api.create(pod)
        except AlreadyExists:
            await self._api.get(Pod, order.name, self._namespace)
        except REFUSALS as error:
            self.refused.append(str(error))

    def _pick(self, _: str, seed: str, also_taken: Any) -> int | None:
        return self._books.ports.probe(seed, self._books.pods.host_ports, also_taken)

    async def retire(self, order: Retire) -> None:
        """First out of everybody's reach, then removed."""
        if await self._hand_over(order.pod, order.lease, claims.retired()):
            await self.remove(order.pod)

    async def remove(self, pod: PodSeen) -> None:
        await self._api.delete(known_pod(pod.name, self._namespace, pod.uid))

    async def drop(self, lease: ClaimSeen) -> None:
        await self._api.delete(claims.known(lease, self._namespace), unchanged=True)

    async def restore(self, order: Restore) -> None:
        await self._hand_over(order.pod, order.lease, claims.free(self._now, order.seconds))

    async def clean(self, order: Clean) -> None:
        to = claims.cleaning(self._now, order.seconds, order.restarts)
        await self._hand_over(order.pod, order.lease, to)

    async def _hand_over(self, pod: PodSeen, lease: ClaimSeen | None, to: claims.Holding) -> bool:
        uid = self._template.metadata.uid
        return await claims.hand_over(self._api, self._namespace, uid, pod, lease, to=to)
