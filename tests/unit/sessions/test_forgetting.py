"""What is kept in memory about sessions, templates and pods goes with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.objects import Key
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.stopwatch import MOST_TIMED, Stopwatch
from tests.unit.sessions.world import Operator, World, pod_template

READY = ClientStatus(phase="Ready", ready=True, pods={"main": "p-1"})
STARTING = ClientStatus(phase="Starting")
S = Key("play", "s")


class Watch:
    """A stopwatch, the time, and what was measured."""

    def __init__(self) -> None:
        self.now = 100.0
        self.metrics = SessionMetrics()
        self.stopwatch = Stopwatch(self.metrics, monotonic=lambda: self.now)

    def note(
        self,
        client: str,
        before: ClientStatus | None,
        after: ClientStatus | None,
        *,
        session: Key = S,
        uid: str = "u-1",
    ) -> None:
        self.stopwatch.note(session, uid, [(client, before, after)], self.now)

    def measured(self, name: str = "ready") -> tuple[float, float]:
        """How many, and how long altogether."""
        found = {
            sample.name: sample.value
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
        }
        prefix = f"edgewise_session_{name}_seconds"
        return found[f"{prefix}_count"], found[f"{prefix}_sum"]


def test_a_client_is_timed_from_its_join() -> None:
    watch = Watch()
    watch.note("ann", None, STARTING)
    watch.now += 30
    watch.note("ann", STARTING, READY)
    assert watch.measured() == (1, 30)
    assert len(watch.stopwatch) == 0


def test_the_clients_of_a_deleted_session_are_forgotten() -> None:
    watch = Watch()
    for number in range(MOST_TIMED):
        session = Key("play", f"s-{number % 100}")
        watch.note(f"c-{number}", None, STARTING, session=session, uid=session.name)
    for number in range(100):
        watch.stopwatch.forget(Key("play", f"s-{number}"))
    assert len(watch.stopwatch) == 0
    watch.note("ann", None, STARTING)
    watch.now += 30
    watch.note("ann", STARTING, READY)
    assert watch.measured() == (1, 30)


def test_a_successor_of_the_same_name_takes_nobody_over() -> None:
    watch = Watch()
    watch.note("ann", None, STARTING)
    watch.now += 30
    watch.note("ann", None, STARTING, uid="u-2")
    watch.now += 1
    watch.note("ann", STARTING, READY, uid="u-2")
    assert watch.measured() == (1, 1)
    assert len(watch.stopwatch) == 0


def test_whose_wait_nobody_saw_begin_is_not_measured() -> None:
    """One that waited while too many did, or since before this process began."""
    watch = Watch()
    for number in range(MOST_TIMED):
        watch.note(f"c-{number}", None, STARTING)
    watch.note("ann", None, STARTING)
    watch.now += 30
    watch.note("ann", STARTING, READY)
    assert watch.measured() == (0, 0)


def test_a_client_that_is_away_does_not_wait() -> None:
    watch = Watch()
    away = ClientStatus(phase="Disconnected", pods={"main": "p-1"})
    watch.note("ann", READY, away)
    watch.now += 30
    watch.note("ann", away, READY)
    assert watch.measured()[1] == 0
    assert len(watch.stopwatch) == 0


# Everything the controllers and their books hold --------------------------------------


def raw(root: object, path: str = "") -> Iterator[tuple[str, int]]:
    """How much is in every dict and set, however deep, of our own objects."""
    for name, value in vars(root).items():
        at = f"{path}.{name}"
        if isinstance(value, Mapping | Set):
            yield at, _size(value)
        elif type(value).__module__.startswith("edgewise.sessions"):
            yield from raw(value, at) if hasattr(value, "__dict__") else ()


def _size(value: Mapping[Any, Any] | Set[Any]) -> int:
    inner = value.values() if isinstance(value, Mapping) else ()
    return len(value) + sum(_size(each) for each in inner if isinstance(each, Mapping | Set))


def everything(operator: Operator) -> Counter[str]:
    found: Counter[str] = Counter()
    for root in (operator.sessions, operator.templates):
        found.update(dict(raw(root, type(root).__name__)))
        samples = [
            (metric.name, *sorted(sample.labels.items()))
            for metric in root.metrics.registry.collect()
            for sample in metric.samples
        ]
        found[f"{type(root).__name__} series"] = len(samples)
    return found


async def a_life(world: World, operator: Operator, number: int, *, force: bool) -> None:
    """A template and sessions with all that happens to them, each time under other names."""
    room, one, two = f"room-{number}", f"one-{number}", f"two-{number}"
    world.template(
        room,
        podTemplates=[pod_template(warmPods=2)],
        reuse="Template",
        reutilizeTimeoutSeconds=1,
        timeoutSeconds=60,
    )
    await world.rest(operator)
    world.fail_pod(next(iter(world.pods())))  # a warm pod: the template notes the failure
    await world.advance(5, operator)
    world.session(one, room, ann=True, bob=True)
    world.make(Session, two, {"podTemplates": [pod_template()], "clients": {"cat": {}}})
    await world.rest(operator)
    world.clients(one, ann=False, bob=None)
    await world.advance(3, operator)
    world.edit_template(room, podTemplates=[pod_template(warmPods=1, ports=[])])
    await world.advance(3, operator)
    world.lazy_images = {pod.spec["containers"][0]["image"] for pod in world.pods().values()}
    world.clients(two, dan=True)  # who waits for ever
    await world.rest(operator)
    assert not world.get(two).status.clients["dan"].ready
    for kind, name in ((Session, one), (Session, two), (SessionTemplate, room)):
        if force:
            key = Key(world.namespace, name)
            world.store.patch(kind.KIND, key, {"metadata": {"finalizers": None}})
        world.delete(kind, name)
    world.lazy_images.clear()
    await world.advance(60, operator)
    assert not world.pods()
    for lease in world.store.all(Lease):  # which belong to their pods: the garbage collector
        world.delete(Lease, lease.metadata.name)
    await world.settle(operator)


async def lives(most: int, change: Callable[[int], bool]) -> None:
    world = World()
    operator = world.operator()
    await world.settle(operator)
    empty = everything(operator)
    for number in range(most):
        await a_life(world, operator, number, force=change(number))
    grown = {
        name: (empty[name], size)
        for name, size in everything(operator).items()
        if size > empty[name]
    }
    assert not grown, f"what was there before, and what is left: {grown}"


async def test_nothing_is_left_of_sessions_and_templates_that_are_gone() -> None:
    await lives(3, lambda _: False)


async def test_nothing_is_left_of_what_was_deleted_by_force() -> None:
    await lives(2, lambda _: True)
