"""The session controller: looks, plans, carries out, and comes back at the next deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgewise.api.sessions import PortClaim, SessionTemplate
from edgewise.kube.coordination import Lease
from edgewise.kube.core import Node, Pod
from edgewise.kube.errors import NotFound
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, Watch, mapped
from edgewise.sessions import names
from edgewise.sessions.apply import Hands
from edgewise.sessions.books import Books, by_template, key_of
from edgewise.sessions.child_kinds import BOUND_KINDS, GATEWAY_KINDS, Child
from edgewise.sessions.held import HeldSession
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.nodes import lost_since
from edgewise.sessions.observe import observe
from edgewise.sessions.observed import Observed
from edgewise.sessions.pages import Pages
from edgewise.sessions.plan import Outcome, Plan, plan
from edgewise.sessions.publish import Ack, RoutePublisher
from edgewise.sessions.resetting import Cleaner, Resets
from edgewise.sessions.routes import Route
from edgewise.sessions.stopwatch import Stopwatch
from edgewise.sessions.teardown import session_uid, sweep

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
    return (key_of(claim.spec.session),)


def sessions_of_template(template: SessionTemplate, cache: CacheView) -> Iterable[Key]:
    return [each.key for each in cache[HeldSession].by(by_template, str(template.key))]


def by_node(pod: Pod) -> str | None:
    return pod.node_name or None


def sessions_on_lost_node(node: Node, cache: CacheView) -> Iterable[Key]:
    """A node that answers needs nobody: its pods speak for themselves."""
    if lost_since(node) is None:
        return ()
    pods = cache[Pod].by(by_node, node.metadata.name)
    return {key for pod in pods for key in session_of_pod(pod, cache)}


class SessionController(Controller[HeldSession]):
    workers = 32

    def __init__(
        self,
        books: Books,
        publisher: RoutePublisher,
        cleaner: Cleaner,
        *,
        metrics: SessionMetrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = books
        self._publisher = publisher
        self.metrics = metrics or SessionMetrics()
        self.child_kinds: tuple[type[Child], ...] = BOUND_KINDS
        if books.site.gateway:
            known = books.site.gateway_kinds
            self.child_kinds += tuple(each for each in GATEWAY_KINDS if each.KIND.kind in known)
        # Under these keys nothing of another uid was left when they were last swept.
        self._swept: dict[Key, str] = {}
        self._pages = Pages()
        self.metrics.follow(self._pages.count_pods, self._pages.count_clients)
        self.watches = self._watches()
        self._monotonic = monotonic
        self._stopwatch = Stopwatch(self.metrics, monotonic=monotonic)
        # Set by whoever runs this controller: puts a key into its queue.
        self.wake: Callable[[Key], None] = lambda _: None
        self.resets = Resets(cleaner, self._wake)

    def _wake(self, key: Key) -> None:
        self.wake(key)

    def _watches(self) -> tuple[Watch, ...]:
        return (
            mapped(Pod, self._suspecting(session_of_pod), labels=names.POD_TEMPLATE),
            mapped(Lease, session_of_label, labels=names.TEMPLATE_UID),
            mapped(SessionTemplate, sessions_of_template),
            mapped(PortClaim, self._suspecting(session_of_claim)),
            mapped(Node, sessions_on_lost_node),
            *(
                mapped(kind, self._suspecting(session_of_label), labels=names.CHILD)
                for kind in self.child_kinds
            ),
        )

    def _suspecting(self, route: SessionsOf) -> SessionsOf:
        """Notes what does not belong to the session that has its name now."""

        def noting(obj: Any, cache: CacheView) -> Iterable[Key]:
            for key in route(obj, cache):
                session = cache[HeldSession].get(key)
                if session is not None and session_uid(obj) not in ("", session.metadata.uid):
                    self._swept.pop(key, None)
                yield key

        return noting

    async def reconcile(self, held: HeldSession) -> Requeue | None:
        self._books.follow(self.cache)
        if held.metadata.deleting:
            await sweep(held.key, "", self)
            return None
        if self._swept.get(held.key) != held.metadata.uid:
            self._swept[held.key] = held.metadata.uid
            await self._sweep(held)
        began = self._monotonic()
        seen, decision = await self._decide(held)
        outcome = await self._carry_out(held, seen, decision)
        self._tell(held, seen, decision, outcome, began)
        return Requeue.at(decision.next_deadline)

    async def gone(self, key: Key) -> None:
        self._books.follow(self.cache)
        self._swept.pop(key, None)
        self._books.pods.forget(key.namespace, self._pages.forget(key))
        await sweep(key, "", self)

    async def _sweep(self, held: HeldSession) -> None:
        """Remove what predecessors of the same name have left."""
        try:
            await sweep(held.key, held.metadata.uid, self)
        except BaseException:
            self._swept.pop(held.key, None)
            raise

    async def _decide(self, held: HeldSession) -> tuple[Observed, Plan]:
        gone: set[str] = set()
        for _ in range(LOOKS):
            page = self._pages.open(held)
            seen = observe(
                page.session(held),
                self.cache,
                self._books,
                resets=self.resets,
                kinds=self.child_kinds,
                gone=frozenset(gone),
                page=page,
            )
            decision = plan(seen, self.clock())
            if not decision.confirm:
                return seen, decision
            gone |= await self._confirm(held, decision.confirm)
            held = self.cache[HeldSession].get(held.key) or held
        raise TryAgainNow(f"the pods of {held.key} are not known for certain")

    async def _confirm(self, held: HeldSession, pods: Sequence[str]) -> set[str]:
        """Ask the API server about pods that should be there: which of them are not ours?"""
        namespace, uid = held.metadata.namespace, held.metadata.uid
        for pod in pods:
            for kind in (Pod, Lease):
                try:
                    await self.api.get(kind, pod, namespace)
                except NotFound:
                    continue
        return set(pods) - self._books.pods.pods_of(namespace, uid).keys()

    async def _carry_out(self, held: HeldSession, seen: Observed, decision: Plan) -> Outcome:
        namespace = seen.session.metadata.namespace
        free_pods = self._books.pods.reserve(
            namespace, [order.pod.name for order in decision.claim]
        )
        free_ports = self._books.ports.reserve({order.number for order in decision.claim_ports})
        page = self._pages.open(held)
        hands = Hands(
            self.api,
            _Timed(self._publisher, self),
            seen.session,
            seen.template,
            now=self.clock(),
            nonsense=page.nonsense,
        )
        try:
            return await hands.carry_out(decision, self._written)
        finally:
            free_pods()
            free_ports()

    def _written(self, answer: HeldSession, decision: Plan) -> None:
        self._pages.turn(answer, decision.status, decision.digest)

    def _tell(
        self, held: HeldSession, seen: Observed, decision: Plan, outcome: Outcome, began: float
    ) -> None:
        session = seen.session
        meta = held.metadata
        self._books.pods.planned(meta.namespace, meta.uid, seen.changed_pods or set(), seen.pods)
        self._pages.settled(held, decision.status, decision.digest)
        for pod in seen.resets:
            self.resets.forget(seen.pods[pod].uid)
        for order in decision.reset:
            self.resets.start(session.key, order)
        for number in outcome.unusable_ports:
            self._books.ports.avoid(number)
        self.metrics.count(decision.tally)
        self._stopwatch.note(session.metadata.uid, decision.changes, began)
        for note in decision.notes:
            tell = self.events.warning if note.warning else self.events.normal
            tell(held, note.reason, note.text)


class _Timed:
    """A publisher that tells how long the gateways took."""

    def __init__(self, publisher: RoutePublisher, controller: SessionController) -> None:
        self._publisher = publisher
        self._metrics = controller.metrics

    async def publish(self, session_key: str, routes: Sequence[Route]) -> Ack:
        began = time.perf_counter()
        ack = await self._publisher.publish(session_key, routes)
        if ack.acked:
            self._metrics.route_seconds.observe(time.perf_counter() - began)
        missed = len(routes) - len(ack.acked)
        if missed > 0:
            self._metrics.unacknowledged.inc(missed)
        return ack
