"""The template controller: keeps pods warm, looks after the pool, and holds a template that
is in use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import SessionTemplate
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, Watch, mapped, read
from edgewise.sessions import names
from edgewise.sessions.apply import all_of
from edgewise.sessions.indexes.indexes import Indexes, by_template, by_template_in_use
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.observe import children_of
from edgewise.sessions.pool.apply import PoolWriter
from edgewise.sessions.pool.observe import PoolHistory, observe_pool, sessions_of
from edgewise.sessions.pool.plan import PoolPlan, plan_pool
from edgewise.sessions.pool.settle import PoolOutcome, PoolSettled, settle_pool
from edgewise.sessions.raw_session import RawSession
from edgewise.sessions.resetting import Cleaner, Resets
from edgewise.workloads.children import BOUND_KINDS, CHILD

# The pool is looked after in the background: changes of this much time are taken together.
AT_MOST_EVERY = 0.2
# Counts in the status follow no faster than this.
COUNTS_EVERY = 2.0
LOOKS = 3

# The sessions' own stream wakes the template; this is for one that stays silent.
UNSEEN_SECONDS = 1.0


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
        self, indexes: Indexes, cleaner: Cleaner, *, metrics: SessionMetrics | None = None
    ) -> None:
        self._indexes = indexes
        self.metrics = metrics or SessionMetrics()
        self._facts: dict[Key, tuple[str, bool]] = {}
        self._last: dict[str, float] = {}
        self._counted: dict[str, float] = {}
        self._history: dict[str, PoolHistory] = {}
        # Whose all that is: when a template is gone, its uid cannot be asked for.
        self._uids: dict[Key, str] = {}
        self.resets = Resets(cleaner, lambda key: self.wake(key))  # noqa: PLW0108 - given later
        self.watches = (
            mapped(Pod, template_of_label, labels=names.POD_TEMPLATE),
            mapped(Lease, template_of_label, labels=names.TEMPLATE_UID),
            mapped(RawSession, self._template_of_session),
            read(PortClaim),
            read(Node),
            *self._child_watches(),
        )

    def _child_watches(self) -> tuple[Watch, ...]:
        return tuple(mapped(kind, template_of_label, labels=CHILD) for kind in BOUND_KINDS)

    def start(self, cache: CacheView) -> None:
        self._indexes.follow(cache)

    def _template_of_session(self, session: RawSession, cache: CacheView) -> Iterable[Key]:
        """Only when a session comes, goes, or gets its first or loses its last client: what
        else happens in sessions does not concern the template."""
        current = cache[RawSession].get(session.key)
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
        uid, now = template.metadata.uid, self.clock()
        self._remember(template)
        wait = self._last.get(uid, 0.0) + AT_MOST_EVERY - now
        if 0 < wait <= AT_MOST_EVERY:
            return Requeue.after(wait)
        self._last[uid] = now
        plan, writer = await self._decide(template), self._writer(template)
        pods = await self._carry_out(plan, writer)
        children = await writer.tend_children(plan)
        outcome = msgspec.structs.replace(pods, refused_children=children.refused_children)
        settled = settle_pool(plan, outcome)
        later = await self._write_status(template, settled)
        if plan.more:
            return Requeue.after(AT_MOST_EVERY)
        moments = [moment for moment in (settled.deadline, later) if moment is not None]
        return Requeue.at(min(moments, default=None))

    async def finalize(self, template: SessionTemplate) -> Requeue | None:
        """A template in use stays, and says why."""
        self._remember(template)
        if not self._sessions_of(template) and await self._has_unseen_sessions(template):
            return Requeue.after(UNSEEN_SECONDS)
        plan, writer = await self._decide(template), self._writer(template)
        outcome = await self._carry_out(plan, writer)
        if self._sessions_of(template):
            await writer.tend_children(plan)
            await self._write_status(template, settle_pool(plan, outcome))
            return Requeue.after(30.0)
        meta = template.metadata
        left = children_of(names.TEMPLATE_UID, meta, self.cache, BOUND_KINDS)
        await writer.remove_children(left.values())
        if self._indexes.pods.pool_of(meta.namespace, meta.uid):
            return Requeue.after(1.0)
        return None

    async def gone(self, key: Key) -> None:
        """If it was deleted by force, the pods that it lent or kept warm go with it."""
        self._forget(key)
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

    def _remember(self, template: SessionTemplate) -> None:
        if self._uids.get(template.key) != template.metadata.uid:
            self._forget(template.key)
            self._uids[template.key] = template.metadata.uid

    def _forget(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is None:
            return
        self._last.pop(uid, None)
        self._counted.pop(uid, None)
        self._history.pop(uid, None)
        with contextlib.suppress(KeyError):  # it was never counted
            self.metrics.warm_pods.remove(key.namespace, key.name)

    def _sessions_of(self, template: SessionTemplate) -> list[RawSession]:
        return sessions_of(template, self.cache)

    async def _has_unseen_sessions(self, template: SessionTemplate) -> bool:
        """Sessions and templates come by streams of their own: a session that was made before
        its template was deleted may be seen after that."""
        namespace = template.metadata.namespace
        found = (await self.api.list(RawSession, namespace)).items
        return any(by_template(session) == str(template.key) for session in found)

    # The pool -----------------------------------------------------------------------

    async def _decide(self, template: SessionTemplate) -> PoolPlan:
        namespace, uid = template.metadata.namespace, template.metadata.uid
        gone_sessions: set[str] = set()
        gone_pods: set[str] = set()
        for _ in range(LOOKS):
            now = self.clock()
            pool = self._indexes.pods.pool_of(namespace, uid)
            history = self._history_of(uid).followed(template).looked_at(pool, now)
            self._history[uid] = history
            seen = observe_pool(
                template,
                self.cache,
                self._indexes,
                history,
                resets=self.resets,
                gone_sessions=frozenset(gone_sessions),
                gone_pods=frozenset(gone_pods),
            )
            plan = plan_pool(seen, now)
            if not plan.confirm_sessions and not plan.confirm_pods:
                return plan
            for session_uid, name in plan.confirm_sessions.items():
                if not await self._lives(session_uid, name, namespace):
                    gone_sessions.add(session_uid)
            for pod in plan.confirm_pods:
                try:
                    await self.api.get(Pod, pod, namespace)
                except NotFound:
                    gone_pods.add(pod)
        raise TryAgainNow(f"the pool of {template.key} is not known for certain")

    def _history_of(self, uid: str) -> PoolHistory:
        return self._history.get(uid) or PoolHistory()

    async def _lives(self, uid: str, name: str, namespace: str) -> bool:
        if not name:
            return False
        try:
            return (await self.api.get(RawSession, name, namespace)).metadata.uid == uid
        except NotFound:
            return False

    async def _carry_out(self, plan: PoolPlan, writer: PoolWriter) -> PoolOutcome:
        template, uid = plan.template, plan.template.metadata.uid
        if plan.failed:
            self._history[uid] = self._history_of(uid).failed(plan.failed, plan.now)
            why = f"{plan.reason}: {plan.trouble}"
            self.events.warning(template, "WarmPodFailed", f"a warm pod failed: {why}")
        outcome = await writer.carry_out(plan)
        for order in plan.reset:
            self.resets.start(template.key, order)
        if outcome.refused_pods:
            history = self._history_of(uid).refused(outcome.refused_pods, self.clock())
            self._history[uid] = history
        return outcome

    def _writer(self, template: SessionTemplate) -> PoolWriter:
        return PoolWriter(self.api, template, now=self.clock())

    # Status -------------------------------------------------------------------------

    async def _write_status(self, template: SessionTemplate, settled: PoolSettled) -> float | None:
        """Counts change with every join, and are written only now and then; the answer is
        when to come back for them."""
        meta, old, new, now = template.metadata, template.status, settled.status, self.clock()
        if settled.warning is not None:
            self.events.warning(template, *settled.warning)
        self.metrics.warm_pods.labels(meta.namespace, meta.name).set(new.warm or 0)
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
