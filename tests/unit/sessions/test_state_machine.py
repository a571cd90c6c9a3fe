"""Random histories: people, failing pods, and two operators at once with caches that lag.

Neither operator knows of the other, each sees the kinds of objects at different times, and
either may be killed between any two of its writes. What must hold at every moment is checked
after every step; what takes a little time, at the end.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod, ResourceQuota
from edgewise.kube.objects import Key
from tests.unit.sessions.world import NAMESPACE, CutOff, Operator, World, pod_template

UDP = {"name": "game", "port": 7777, "protocol": "UDP"}
HTTP = {"name": "http", "port": 8080}
KINDS = ("Session", "SessionTemplate", "Pod", "Lease", "PortClaim", "Node", "ResourceQuota")

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
RUNS = int(os.environ.get("EDGEWISE_CHAOS_RUNS", "1000" if LONG else "40"))

sessions = st.sampled_from(("s", "t"))
clients = st.sampled_from(("ann", "bob", "cat", "dan"))
parts = st.fixed_dictionaries(
    {},
    optional={
        "maxClients": st.sampled_from((0, 1, 2, 3)),
        "warmPods": st.sampled_from((0, 1, 2)),
        "ports": st.sampled_from(([HTTP], [HTTP, UDP])),
        "reset": st.just({"httpPath": "/reset"}),
    },
)


class TwoOperators(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.seats: dict[tuple[str, str, str], str] = {}
        self.served: set[str] = set()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.operators: list[Operator] = []
        self.reserve_image = 1

    @initialize(
        first=parts,
        second=parts,
        both=st.booleans(),
        reuse=st.sampled_from(("Never", "Session", "Template")),
        timeout=st.sampled_from((0, 10)),
        reutilize=st.sampled_from((0, 20)),
    )
    def begin(
        self, *, first: Any, second: Any, both: bool, reuse: str, timeout: int, reutilize: int
    ) -> None:
        templates = [pod_template(**first)]
        if both:
            templates.append(pod_template("chat", **second))
        self.world.template(
            podTemplates=templates,
            reuse=reuse,
            timeoutSeconds=timeout,
            reutilizeTimeoutSeconds=reutilize,
            nodeLossSeconds=5,
        )
        self.operators = [Operator(self.world), Operator(self.world)]

    # People -------------------------------------------------------------------------

    def _there(self, session: str) -> bool:
        return Key(NAMESPACE, session) in self.world.store.objects.get(Session.KIND, {})

    @rule(session=sessions, client=clients, state=st.sampled_from((True, True, False, None)))
    def say(self, session: str, client: str, state: bool | None) -> None:
        if not self._there(session):
            self.world.session(session)
        self.world.clients(session, **{client: state})

    @rule(session=sessions)
    def delete_session(self, session: str) -> None:
        if self._there(session):
            self.world.delete(Session, session)

    @rule()
    def edit_image(self) -> None:
        self.reserve_image += 1
        spec = self.world.get_template().spec
        templates = [
            pod_template(
                each.name,
                maxClients=each.max_clients,
                warmPods=each.warm_pods,
                ports=[
                    {"name": p.name, "port": p.port, "protocol": p.protocol} for p in each.ports
                ],
                template={
                    "spec": {
                        "containers": [{"name": "main", "image": f"room:{self.reserve_image}"}]
                    }
                },
            )
            for each in spec.pod_templates
        ]
        self.world.edit_template(podTemplates=templates)

    # The cluster --------------------------------------------------------------------

    @rule()
    def nodes_work(self) -> None:
        self.world.nodes_work()

    @rule(
        number=st.integers(0, 50),
        way=st.sampled_from(("delete", "force", "fail", "crash", "unready")),
    )
    def harm_pod(self, number: int, way: str) -> None:
        pods = sorted(self.world.pods())
        if not pods:
            return
        pod = pods[number % len(pods)]
        match way:
            case "delete":
                self.world.delete(Pod, pod)
            case "force":
                self.world.delete(Pod, pod, force=True)
            case "fail":
                self.world.fail_pod(pod)
            case "crash":
                self.world.crash_pod(pod)
            case "unready":
                self.world.set_pod(pod, ready=False)
                self.world.set_pod(pod, ready=True)

    @rule(pods=st.integers(0, 6))
    def set_quota(self, pods: int) -> None:
        self.world.quota(pods)

    @rule(seconds=st.sampled_from((0.3, 3.0, 11.0, 25.0)))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds

    # The operators ------------------------------------------------------------------

    @rule(
        which=st.sampled_from((0, 1)),
        kinds=st.sets(st.sampled_from(KINDS), min_size=1),
        most=st.sampled_from((1, 3, None)),
    )
    def see(self, which: int, kinds: set[str], most: int | None) -> None:
        self.operators[which].watch(kinds=sorted(kinds), most=most)

    @rule(which=st.sampled_from((0, 1)))
    def see_all(self, which: int) -> None:
        self.operators[which].watch()

    @rule(
        who=st.sampled_from(((0,), (1,), (0, 1))),
        seed=st.integers(0, 999),
        cuts=st.tuples(st.sampled_from((None, None, 1, 2, 3, 5)), st.booleans()),
    )
    def act(self, who: tuple[int, ...], seed: int, cuts: tuple[int | None, bool]) -> None:
        chance = random.Random(seed)
        cut_at, after = cuts
        for which in who:
            operator = self.operators[which]
            operator.client.delay = lambda: chance.randrange(4)
            if cut_at is not None and which == who[0]:
                operator.cut_at = operator.count + cut_at
                operator.cut_after = after

        async def both() -> None:
            await asyncio.gather(*(self._work(which, chance) for which in who))

        self.loop.run_until_complete(both())

    async def _work(self, which: int, chance: random.Random) -> None:
        operator = self.operators[which]
        try:
            for _ in range(chance.randrange(1, 4)):
                await operator.work_at_once(chance.randrange(1, 4))
        except CutOff:
            self.operators[which] = Operator(self.world)
        else:
            operator.cut_at = None

    @rule(
        session=sessions,
        states=st.dictionaries(clients, st.sampled_from((True, True, True, False, None))),
        lag=st.sets(st.sampled_from(("Pod", "Lease", "PortClaim", "SessionTemplate"))),
        seed=st.integers(0, 999),
        rounds=st.integers(1, 3),
    )
    def race(
        self, *, session: str, states: dict[str, Any], lag: set[str], seed: int, rounds: int
    ) -> None:
        """Both hear of the same news, and set to work on them at the same time."""
        if not self._there(session):
            self.world.session(session)
        self.world.clients(session, **states)
        for _ in range(rounds):
            self.operators[0].watch()
            self.operators[1].watch(kinds=sorted(set(KINDS) - lag))
            self.act((0, 1), seed, (None, False))

    # What must hold -----------------------------------------------------------------

    @precondition(lambda self: self.operators)
    @invariant()
    def nothing_impossible(self) -> None:
        self.world.check(settled=False)

    @precondition(lambda self: self.operators)
    @invariant()
    def nobody_is_moved_without_need(self) -> None:
        seats = {
            (session.metadata.uid, client, template): pod
            for session in self.world.store.all(Session)
            for client, record in session.status.clients.items()
            for template, pod in record.pods.items()
        }
        for seat, pod in seats.items():
            before = self.seats.get(seat, pod)
            # In a pod that was never ready nobody has been served: an edit replaces it.
            free_to_go = before in self.world.harmed or before not in self.served
            assert before == pod or free_to_go, f"{seat} was moved"
        self.served |= {
            pod
            for session in self.world.store.all(Session)
            for members in session.status.pods.values()
            for pod, address in members.items()
            if address
        }
        # An operator may seat somebody in a pod of whose end it has not heard yet. From there,
        # and only from there, it has to move them.
        there = self.world.pods(alive=False)
        self.seats = {seat: pod for seat, pod in seats.items() if pod in there}

    def teardown(self) -> None:
        try:
            if self.operators:
                self.loop.run_until_complete(self._end())
        finally:
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()

    async def _end(self) -> None:
        world = self.world
        for operator in self.operators:
            operator.cut_at = None
            operator.client.delay = lambda: 0
        if world.store.all(ResourceQuota):
            world.quota(1000)
        # Failures may have put pods to rest: that wait has an end.
        await world.advance(700, *self.operators)
        world.check()
        for session in world.store.all(Session):
            body = dict.fromkeys(session.spec.clients)
            world.clients(session.metadata.name, **body)
        await world.advance(60, *self.operators)
        world.check()
        assert not any(session.status.pods for session in world.store.all(Session))
        for session in world.store.all(Session):
            world.delete(Session, session.metadata.name)
        await world.advance(60, *self.operators)
        world.check()
        assert not world.store.all(PortClaim)
        assert not world.store.all(Lease)


TwoOperators.TestCase.settings = settings(
    max_examples=RUNS,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTwoOperators = pytest.mark.chaos(TwoOperators.TestCase)
