"""A world for sessions: a store, nodes that run pods, operators that can be cut off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import (
    GROUP,
    VERSION,
    Session,
    SessionSpec,
    SessionStatus,
    SessionTemplate,
)
from edgewise.exposure.port_range import PortRange
from edgewise.exposure.publishing import Ack
from edgewise.exposure.route import Owner, Route
from edgewise.exposure.site import Site
from edgewise.kube.errors import Forbidden
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Node, Pod, ResourceQuota
from edgewise.kube.objects import Key, Kind
from edgewise.runtime.api import Api
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.controller_workers import ControllerWorkers
from edgewise.runtime.events import EventRecorder
from edgewise.sessions.controller import SessionController
from edgewise.sessions.digest import digest_of
from edgewise.sessions.indexes.indexes import Indexes
from edgewise.sessions.orders import ResetPod
from edgewise.sessions.pool.controller import TemplateController
from edgewise.testing.session_checker import Seen, violations
from edgewise.workloads.deadlines import stamp
from tests.unit.sessions.store import Store, StoreClient, typed

NAMESPACE = "play"
START = 1_800_000_000.0
SITE = Site(
    seat_key=b"0123456789abcdef0123456789abcdef",
    public_url="http://edge.example",
    public_host="edge.example",
    ports=PortRange(20000, 20099),
)


class CutOff(BaseException):
    """The operator was killed. Nothing may catch it."""


class Gateways:
    """Acknowledge everything, unless told otherwise; remember what they were told."""

    def __init__(self) -> None:
        self.silent = False
        self.broken_ports: set[int] = set()
        self.told: list[tuple[Owner, Sequence[Route]]] = []

    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack:
        self.told.append((owner, routes))
        if self.silent:
            return Ack(complaint="nobody answers")
        bad = {each.id: "cannot listen" for each in routes if each.listen_port in self.broken_ports}
        return Ack(acked={each.id for each in routes if each.id not in bad}, rejected=bad)


class Cleaners:
    def __init__(self) -> None:
        self.cleaned: list[str] = []
        self.works = True

    async def clean(self, namespace: str, order: ResetPod) -> bool | None:
        self.cleaned.append(order.pod.name)
        return self.works


class Operator:
    """Both controllers, with caches that see only what they are shown."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = self._make_client()
        self.cut_at: int | None = None  # the write at which it dies
        self.cut_after = False  # ... once the API server has carried it out
        self.count = 0
        self.dead = False
        self._wrong = ""
        caches: Any = SharedCaches(self.client)
        self.caches = caches
        self.api = Api(self.client, caches)
        events = self.events = EventRecorder(self.client, clock=world.clock)
        indexes = Indexes(world.site)
        self.indexes = indexes
        self.sessions = SessionController(
            indexes,
            world.gateways,
            world.cleaners,
            monotonic=world.clock,
        )
        self.templates = TemplateController(indexes, world.cleaners)
        self.workers = [
            ControllerWorkers(
                each,
                caches,
                self.api,
                events,
                clock=world.clock,
                monotonic=world.clock,
                random=random.Random(1),
            )
            for each in (self.sessions, self.templates)
        ]
        for workers in self.workers:
            workers.add_all()
        self._seen: dict[Any, int] = {}
        self.list()

    def _make_client(self) -> Any:
        return StoreClient(self.world.store, self._watch)

    # Seeing -------------------------------------------------------------------------

    def _each_cache(self) -> list[Any]:
        kinds = {
            watch.kind.KIND for each in (self.sessions, self.templates) for watch in each.watches
        }
        kinds |= {Session.KIND, SessionTemplate.KIND}
        return [cache for kind in kinds for cache in self.caches.holding(kind)]

    def list(self) -> None:
        """As after a start: a complete list of everything."""
        for cache in self._each_cache():
            raws = self.world.store.objects.get(cache.kind.KIND, {}).values()
            items = [typed(raw, cache.kind) for raw in raws]
            matches = cache.selection.matcher()
            cache.replace([item for item in items if matches(item)], str(self.world.store.version))
            self._seen[cache] = len(self.world.store.log)

    def watch(self, *, kinds: Sequence[str] | None = None, most: int | None = None) -> None:
        """Take in what happened since; of some kinds only, and at most so many changes."""
        for cache in self._each_cache():
            if kinds is not None and cache.kind.KIND.kind not in kinds:
                continue
            matches = cache.selection.matcher()
            start = self._seen[cache]
            events = self.world.store.log[start:]
            if most is not None:
                events = events[:most]
            for event in events:
                if event.kind == cache.kind.KIND:
                    obj = typed(event.raw, cache.kind)
                    if matches(obj):
                        cache.apply(obj, deleted=event.deleted)
            self._seen[cache] = start + len(events)

    # Acting -------------------------------------------------------------------------

    def _watch(self, verb: str, kind: str, key: Key, done: bool) -> None:
        if self.dead:
            raise CutOff
        if verb == "get":
            return
        if not done:
            self.count += 1
            # Nobody comes between this and the write, which the store may still refuse.
            self._wrong = self.world.what_is_wrong_with(verb, kind, key)
        elif self._wrong:
            self.world.violations.append(self._wrong)
        if self.count == self.cut_at and done == self.cut_after:
            self.dead = True
            raise CutOff

    async def work(self, most: int = 200) -> int:
        """Reconcile what is due. Raises CutOff when it was killed."""
        done = 0
        for _ in range(most):
            progress = False
            for workers in self.workers:
                key = workers.queue.take()
                if key is None:
                    continue
                progress = True
                done += 1
                await self._one(workers, key)
                # Resets and the like, which run beside the reconciles.
                for _ in range(3):
                    await asyncio.sleep(0)
            if not progress:
                return done
        raise AssertionError(f"still busy after {most} rounds")

    async def only(self, name: str) -> None:
        """Reconcile one session, and leave everything else for later."""
        queue, later = self.workers[0].queue, []
        while (key := queue.take()) is not None:
            if key.name == name:
                await self._one(self.workers[0], key)
                break
            later.append(key)
        for key in later:
            queue.done(key)
            queue.add(key)

    async def work_at_once(self, most: int) -> None:
        """Reconcile up to so many keys at the same time; a kill ends all of them."""
        running = []
        for workers in self.workers:
            while len(running) < most and (key := workers.queue.take()) is not None:
                running.append(self._one(workers, key))
        results = await asyncio.gather(*running, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _one(self, workers: ControllerWorkers, key: Key) -> None:
        try:
            await workers._pass(key)
        finally:
            workers.queue.done(key)
        self._check_page(key)

    def _check_page(self, key: Key) -> None:
        """What is carried along must be what would be worked out anew."""
        page = self.sessions._decoded._decoded.get(key)
        if page is None or page.nonsense:
            return
        assert page.status == msgspec.json.decode(page.status_text, type=SessionStatus)
        assert page.spec == msgspec.json.decode(page.spec_text, type=SessionSpec)
        if page.digest is not None:
            anew, kept = digest_of(page.status), page.digest
            assert kept == msgspec.structs.replace(
                anew, templates=kept.templates, tokens=kept.tokens
            )

    def next_due(self) -> float | None:
        """Seconds to the next thing that is due. (The queue itself looks at the clock every
        second, because somebody could set it; here nobody does unseen.)"""
        heaps = [
            heap
            for each in self.workers
            for heap in (each.queue._delay_heap, each.queue._moment_heap)
        ]
        return min((heap[0][0] - self.world.now for heap in heaps if heap), default=None)


class World:
    def __init__(self, site: Site = SITE, *, namespace: str = NAMESPACE) -> None:
        self.now = START
        self.namespace = namespace
        self.store = Store(lambda: self.now)
        self.site = site
        self.gateways = Gateways()
        self.cleaners = Cleaners()
        # Kept, because a controller would take an exception for trouble and try again.
        self.violations: list[str] = []
        self.harmed: set[str] = set()  # pods that somebody else than an operator ended
        self.lazy_pods: set[str] = set()  # pods that do not become ready
        self.node = "node-1"  # where new pods go
        self.lazy_images: set[str] = set()  # images of which no pod becomes ready
        self.quota_is_kept = True  # else nobody counts the pods that are gone
        self._addresses = iter(range(1, 1 << 20))

    def clock(self) -> float:
        return self.now

    # What people do -----------------------------------------------------------------

    def make(self, kind: type[Any], name: str, spec: Any) -> Any:
        raw = self.store.create(
            kind.KIND,
            {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": kind.KIND.kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": spec,
            },
        )
        return typed(raw, kind)

    def template(self, name: str = "room", **spec: Any) -> SessionTemplate:
        spec.setdefault("podTemplates", [pod_template()])
        made: SessionTemplate = self.make(SessionTemplate, name, spec)
        return made

    def edit_template(self, name: str = "room", **spec: Any) -> None:
        self.store.patch(SessionTemplate.KIND, Key(self.namespace, name), {"spec": spec})

    def session(self, name: str = "s", template: str = "room", **clients: bool) -> Session:
        wanted = {client: {"connected": connected} for client, connected in clients.items()}
        spec = {"templateRef": {"name": template}, "clients": wanted}
        made: Session = self.make(Session, name, spec)
        return made

    def clients(self, session: str = "s", **clients: bool | None) -> None:
        """True: connected; False: disconnected; None: left."""
        wanted = {
            client: None if connected is None else {"connected": connected}
            for client, connected in clients.items()
        }
        body = {"spec": {"clients": wanted}}
        self.store.patch(Session.KIND, Key(self.namespace, session), body)

    def delete(self, kind: type[Any], name: str, *, force: bool = False) -> None:
        options = {"gracePeriodSeconds": 0} if force else {}
        if kind is Pod:
            self.harmed.add(name)
        self.store.delete(kind.KIND, Key(self.namespace, name), options)

    def get(self, name: str = "s") -> Session:
        return typed(self.store.get(Session, Key(self.namespace, name)), Session)

    def get_template(self, name: str = "room") -> SessionTemplate:
        raw = self.store.get(SessionTemplate, Key(self.namespace, name))
        return typed(raw, SessionTemplate)

    # What the cluster does ----------------------------------------------------------

    def operator(self) -> Operator:
        return Operator(self)

    def nodes_work(self) -> None:
        """Pods start and become ready, or end when they were deleted."""
        for pod in self.store.all(Pod):
            if pod.metadata.deleting:
                self.store.finish(Pod.KIND, pod.key)
            elif not pod.node_name:
                self.store.patch(Pod.KIND, pod.key, {"spec": {"nodeName": self.node}})
                image = pod.spec["containers"][0]["image"]
                ready = not (pod.metadata.name in self.lazy_pods or image in self.lazy_images)
                self.set_pod(pod.metadata.name, ready=ready, ip=self._address())

        if self.quota_is_kept:
            self._count_for_the_quota()

    def quota(self, pods: int) -> None:
        """At most so many pods, as the API server and the quota controller see to it."""
        key = Key(self.namespace, "quota")
        if key not in self.store.objects.get(ResourceQuota.KIND, {}):
            meta = {"name": key.name, "namespace": self.namespace}
            self.store.create(ResourceQuota.KIND, {"metadata": meta})
        self._set_quota(hard={"pods": str(pods)})
        self._count_for_the_quota()
        self.store.admit = self._within_quota

    def _set_quota(self, **status: dict[str, str]) -> None:
        key = Key(self.namespace, "quota")
        self.store.patch(ResourceQuota.KIND, key, {"status": status}, "status")

    def _count_for_the_quota(self) -> None:
        """The controller does this a moment after a pod is gone, and not before."""
        if self.store.objects.get(ResourceQuota.KIND):
            self._set_quota(used={"pods": str(len(self.store.all(Pod)))})

    def _within_quota(self, kind: Kind, raw: dict[str, Any]) -> None:
        if kind != Pod.KIND:
            return
        quota = self.store.get(ResourceQuota, Key(self.namespace, "quota"))["status"]
        used, hard = int(quota["used"]["pods"]), int(quota["hard"]["pods"])
        if used >= hard:
            name = raw["metadata"]["name"]
            raise Forbidden(
                403,
                "Forbidden",
                f'pods "{name}" is forbidden: exceeded quota: quota, requested: pods=1, '
                f"used: pods={used}, limited: pods={hard}",
            )
        self._set_quota(used={"pods": str(used + 1)})

    def crash_pod(self, name: str, code: int = 3) -> None:
        """Its container has ended again, and the kubelet waits before it starts it once more."""
        self.harmed.add(name)
        self.set_containers(
            name,
            {
                "name": "main",
                "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": f"pod={name}"}},
                "lastState": {"terminated": {"exitCode": code, "reason": "Error"}},
            },
        )

    def set_containers(self, name: str, *statuses: dict[str, Any]) -> None:
        self.set_pod(name, ready=False)
        body = {"status": {"containerStatuses": list(statuses)}}
        self.store.patch(Pod.KIND, Key(self.namespace, name), body, "status")

    def _address(self) -> str:
        number = next(self._addresses)
        return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def set_pod(self, name: str, *, ready: bool, phase: str = "Running", ip: str = "") -> None:
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready), "reason": "", "message": ""}],
        }
        if ip:
            status |= {"podIP": ip, "hostIP": "192.0.2.1"}
        self.store.patch(Pod.KIND, Key(self.namespace, name), {"status": status}, "status")

    def fail_pod(self, name: str) -> None:
        self.harmed.add(name)
        self.set_pod(name, ready=False, phase="Failed")

    def set_node(self, name: str = "node-1", *, lost: bool) -> None:
        condition = {
            "type": "Ready",
            "status": "Unknown" if lost else "True",
            "reason": "",
            "message": "",
            "lastTransitionTime": stamp(self.now),
        }
        if lost:
            self.harmed |= {
                pod.metadata.name for pod in self.store.all(Pod) if pod.node_name == name
            }
        key = Key("", name)
        if key not in self.store.objects.get(Node.KIND, {}):
            self.store.create(Node.KIND, {"metadata": {"name": name}})
        self.store.patch(Node.KIND, key, {"status": {"conditions": [condition]}}, "status")

    # Looking ------------------------------------------------------------------------

    def pods(self, *, alive: bool = True) -> dict[str, Pod]:
        return {
            pod.metadata.name: pod
            for pod in self.store.all(Pod)
            if not (alive and pod.metadata.deleting)
        }

    def pod_of(self, client: str, session: str = "s", template: str = "main") -> str:
        return self.get(session).status.clients[client].pods.get(template, "")

    def phase_of(self, client: str, session: str = "s") -> str:
        record = self.get(session).status.clients.get(client)
        return record.phase if record is not None else ""

    # Running ------------------------------------------------------------------------

    async def settle(self, *operators: Operator, rounds: int = 60) -> None:
        """Let everything happen that happens without time passing."""
        for _ in range(rounds):
            before = self.store.version
            busy = 0
            for operator in operators:
                operator.watch()
                busy += await operator.work()
            self.nodes_work()
            if not busy and before == self.store.version:
                return
        raise AssertionError("the world does not come to rest")

    async def rest(self, *operators: Operator, most: float = 1.0) -> None:
        """The same, and whatever is due within `most` seconds."""
        end = self.now + most
        while True:
            await self.settle(*operators)
            due = [each for operator in operators if (each := operator.next_due()) is not None]
            step = min(due, default=most)
            if self.now + step > end:
                self.now = end
                await self.settle(*operators)
                return
            self.now += max(step, 0.001)

    async def advance(self, seconds: float, *operators: Operator) -> None:
        await self.rest(*operators, most=seconds)

    # What must hold -----------------------------------------------------------------

    def what_is_wrong_with(self, verb: str, kind: str, key: Key) -> str:
        """What no operator may do, whatever it believes; empty if it may."""
        if verb != "delete":
            return ""
        sessions = self.store.all(Session)
        if kind == "Pod" and key.name not in self.harmed:
            seated = [
                client
                for session in sessions
                for client, record in session.status.clients.items()
                if key.name in record.pods.values()
            ]
            if seated:
                return f"pod {key.name} was removed under {seated}"
        if kind == "PortClaim":
            used = [
                url
                for session in sessions
                for record in session.status.clients.values()
                for endpoints in record.endpoints.values()
                for url in endpoints.values()
                if url.startswith(key.name[:3]) and url.endswith(f":{key.name[4:]}")
            ]
            if used:
                return f"port {key.name} was freed while it was in use"
        return ""

    def check(self, *, settled: bool = True) -> None:
        """At any moment; `settled`: also what takes a little time."""
        assert not self.violations, self.violations
        wrong = violations(self.seen(), self.now, settled=settled)
        assert not wrong, wrong

    def seen(self) -> Seen:
        return Seen(
            namespace=self.namespace,
            sessions=self.store.all(Session),
            templates=self.store.all(SessionTemplate),
            pods=self.store.all(Pod),
            leases=self.store.all(Lease),
            claims=self.store.all(PortClaim),
        )


def pod_template(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "ports": [{"name": "http", "port": 8080}],
        "template": {"spec": {"containers": [{"name": "main", "image": "room:1"}]}},
        **fields,
    }


def run(scenario: Callable[[], Any]) -> Any:
    return asyncio.run(scenario())
