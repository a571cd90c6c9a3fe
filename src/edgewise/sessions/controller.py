"""The session controller: looks, plans, carries out, and comes back at the next deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import SessionTemplate
from edgewise.exposure.publishing import Ack, RoutePublisher
from edgewise.exposure.route import Owner, Route
from edgewise.exposure.route_misses import RouteMisses
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Node, Pod, ResourceQuota
from edgewise.kube.kinds.gateway_api import GATEWAY_KINDS
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, Watch, mapped, nobody, read
from edgewise.sessions import names
from edgewise.sessions.apply import SessionWriter
from edgewise.sessions.indexes.decoded_sessions import DecodedSessions
from edgewise.sessions.indexes.indexes import Indexes, by_template, key_of
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.observe import observe
from edgewise.sessions.observed import Observed
from edgewise.sessions.plan import Plan, plan
from edgewise.sessions.raw_session import RawSession
from edgewise.sessions.resetting import Cleaner, Resets
from edgewise.sessions.settle import Settled
from edgewise.sessions.stopwatch import Stopwatch
from edgewise.sessions.teardown import session_uid, sweep
from edgewise.workloads.children import BOUND_KINDS, CHILD, Child, ChildService
from edgewise.workloads.node_loss import lost_since

# A pod that nobody can be found to have is looked for so often, then later again.
LOOKS = 3

SessionsOf = Callable[[Any, CacheView], Iterable[Key]]


def session_of_pod(pod: Pod, cache: CacheView) -> Iterable[Key]:
    """The session it was made for, and the one that has it now."""
    yield from session_of_label(pod, cache)
    if names.TEMPLATE_UID in pod.metadata.labels:
        lease = cache[Lease].get(pod.key)
        if lease is not None:
            yield from session_of_label(lease, cache)


def session_of_label(obj: Object, _: CacheView) -> Iterable[Key]:
    name = obj.metadata.labels.get(names.SESSION)
    return (Key(obj.metadata.namespace, name),) if name else ()


def session_of_claim(claim: PortClaim, _: CacheView) -> Iterable[Key]:
    return (key_of(claim.spec.owner),) if claim.spec.domain == names.DOMAIN else ()


def sessions_of_template(template: SessionTemplate, cache: CacheView) -> Iterable[Key]:
    return [each.key for each in cache[RawSession].by(by_template, str(template.key))]


def by_node(pod: Pod) -> str | None:
    return pod.node_name or None


def sessions_on_lost_node(node: Node, cache: CacheView) -> Iterable[Key]:
    """A node that answers needs nobody: its pods speak for themselves."""
    if lost_since(node) is None and cache[Node].get(node.key) is not None:
        return ()
    pods = cache[Pod].by(by_node, node.metadata.name)
    found = {key for pod in pods for key in session_of_pod(pod, cache)}
    # Any of these may have told its clients to come by way of this node.
    for service in cache[ChildService].by(by_type, "NodePort"):
        found.update(session_of_label(service, cache))
    return found


def by_type(service: ChildService) -> str | None:
    return service.spec.get("type")


class SessionController(Controller[RawSession]):
    workers = 32

    def __init__(
        self,
        indexes: Indexes,
        publisher: RoutePublisher,
        cleaner: Cleaner,
        *,
        metrics: SessionMetrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._indexes = indexes
        self._publisher = publisher
        self.metrics = metrics or SessionMetrics()
        self.child_kinds: tuple[type[Child], ...] = BOUND_KINDS
        if indexes.site.gateway:
            known = indexes.site.gateway_kinds
            self.child_kinds += tuple(each for each in GATEWAY_KINDS if each.KIND.kind in known)
        # Under these keys nothing of another uid was left when they were last swept.
        self._swept: dict[Key, str] = {}
        self._route_misses = RouteMisses()
        self._decoded = DecodedSessions()
        self.metrics.follow(self._decoded.count_pods, self._decoded.count_clients)
        self.watches = self._watches()
        self._monotonic = monotonic
        self._stopwatch = Stopwatch(self.metrics, monotonic=monotonic)
        self.resets = Resets(cleaner, lambda key: self.wake(key))  # noqa: PLW0108 - given later

    def start(self, cache: CacheView) -> None:
        self._indexes.follow(cache)
        self._indexes.room.follow(
            cache[Pod], cache[ResourceQuota], clock=self.clock, wake=self.wake
        )

    def _watches(self) -> tuple[Watch, ...]:
        return (
            mapped(Pod, self._suspecting(session_of_pod), labels=names.POD_TEMPLATE),
            mapped(Lease, session_of_label, labels=names.TEMPLATE_UID),
            mapped(SessionTemplate, sessions_of_template),
            # Its name is its port, which stays taken.
            mapped(PortClaim, self._suspecting(session_of_claim), unread=nobody),
            mapped(Node, sessions_on_lost_node),
            read(ResourceQuota),
            *(
                mapped(kind, self._suspecting(session_of_label), labels=CHILD)
                for kind in self.child_kinds
            ),
        )

    def _suspecting(self, route: SessionsOf) -> SessionsOf:
        """Notes what does not belong to the session that has its name now."""

        def noting(obj: Any, cache: CacheView) -> Iterable[Key]:
            for key in route(obj, cache):
                session = cache[RawSession].get(key)
                if session is not None and session_uid(obj) not in ("", session.metadata.uid):
                    self._swept.pop(key, None)
                yield key

        return noting

    async def reconcile(self, raw: RawSession) -> Requeue | None:
        if raw.metadata.deleting:
            await sweep(raw.key, "", self)
            return None
        if self._swept.get(raw.key) != raw.metadata.uid:
            self._swept[raw.key] = raw.metadata.uid
            await self._sweep(raw)
        if self._decoded.uid_of(raw.key) not in ("", raw.metadata.uid):
            self._forget(raw.key)  # a predecessor of the same name
        began = self._monotonic()
        seen, decision = await self._decide(raw)
        settled = await self._carry_out(raw, seen, decision)
        self._tell(raw, seen, decision, settled, began)
        return Requeue.at(settled.next_deadline)

    async def gone(self, key: Key) -> None:
        self._indexes.room.note(key, waits=False)
        self._swept.pop(key, None)
        self._forget(key)
        self._route_misses.forget(names.owner_of_routes(key))
        await sweep(key, "", self)

    def _forget(self, key: Key) -> None:
        self._indexes.pods.forget(key.namespace, self._decoded.forget(key))
        self._stopwatch.forget(key)

    async def _sweep(self, raw: RawSession) -> None:
        """Remove what predecessors of the same name have left."""
        try:
            await sweep(raw.key, raw.metadata.uid, self)
        except BaseException:
            self._swept.pop(raw.key, None)
            raise

    async def _decide(self, raw: RawSession) -> tuple[Observed, Plan]:
        gone: set[str] = set()
        for _ in range(LOOKS):
            page = self._decoded.open(raw)
            seen = observe(
                page.session(raw),
                self.cache,
                self._indexes,
                resets=self.resets,
                kinds=self.child_kinds,
                gone=frozenset(gone),
                page=page,
            )
            decision = plan(seen, self.clock())
            if not decision.confirm:
                return seen, decision
            gone |= await self._confirm(raw, decision.confirm)
            raw = self.cache[RawSession].get(raw.key) or raw
        raise TryAgainNow(f"the pods of {raw.key} are not known for certain")

    async def _confirm(self, raw: RawSession, pods: Sequence[str]) -> set[str]:
        """Ask the API server about pods that should be there: which of them are not ours?"""
        namespace, uid = raw.metadata.namespace, raw.metadata.uid
        for pod in pods:
            for kind in (Pod, Lease):
                try:
                    await self.api.get(kind, pod, namespace)
                except NotFound:
                    continue
        return set(pods) - self._indexes.pods.pods_of(namespace, uid).keys()

    async def _carry_out(self, raw: RawSession, seen: Observed, decision: Plan) -> Settled:
        namespace = seen.session.metadata.namespace
        free_pods = self._indexes.pods.reserve(
            namespace, [order.pod.name for order in decision.claim]
        )
        if decision.create:
            # Room that appears before the answer is known must not be missed.
            self._indexes.room.note(raw.key, waits=True)
        free_ports = self._indexes.ports.reserve({order.number for order in decision.claim_ports})
        page = self._decoded.open(raw)
        writer = SessionWriter(
            self.api,
            _Timed(self._publisher, self.metrics, self._route_misses),
            seen.session,
            seen.template,
            now=self.clock(),
            nonsense=page.nonsense,
        )
        try:
            return await writer.carry_out(decision, self._written)
        finally:
            free_pods()
            free_ports()

    def _written(self, answer: RawSession, settled: Settled) -> None:
        self._decoded.turn(answer, settled.status, settled.digest)

    def _tell(
        self, raw: RawSession, seen: Observed, decision: Plan, settled: Settled, began: float
    ) -> None:
        session = seen.session
        meta = raw.metadata
        self._indexes.pods.planned(meta.namespace, meta.uid, seen.changed_pods or set(), seen.pods)
        self._decoded.settled(raw, settled.status, settled.digest)
        self._indexes.room.note(raw.key, waits=bool(settled.status.refusals))
        for pod in seen.resets:
            self.resets.forget(seen.pods[pod].uid)
        for order in decision.reset:
            self.resets.start(session.key, order)
        for number in settled.unusable_ports:
            self._indexes.ports.avoid(number)
        self.metrics.count(settled.tally)
        self._stopwatch.note(raw.key, meta.uid, settled.changes, began)
        for note in settled.notes:
            tell = self.events.warning if note.warning else self.events.normal
            tell(raw, note.reason, note.text)


class _Timed:
    """A publisher that tells how long the gateways took."""

    def __init__(
        self, publisher: RoutePublisher, metrics: SessionMetrics, misses: RouteMisses
    ) -> None:
        self._publisher = publisher
        self._metrics = metrics
        self._misses = misses

    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack:
        began = time.perf_counter()
        ack = await self._publisher.publish(owner, routes)
        if ack.acked:
            self._metrics.route_seconds.observe(time.perf_counter() - began)
        missed = self._misses.note(owner, {route.id for route in routes}, ack.acked)
        self._metrics.unacknowledged.inc(missed)
        return ack
