"""Workers: what fills their queue, and what they survive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.errors import Unreachable
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.kube.objects import Key, Object, OwnerReference
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import ReconcileError, TryAgainAfter, TryAgainNow
from edgewise.runtime.watches import CacheView, mapped, owned
from edgewise.testing.eventually import eventually

WORD: Any = "noon"  # where a number belongs


class Idle(Controller[ConfigMap]):
    watches = (owned(Secret),)

    async def reconcile(self, obj: ConfigMap) -> Requeue | None:
        return None


class Careless(Controller[ConfigMap]):
    """Waits for something that somebody else ends."""

    workers = 2

    def __init__(self) -> None:
        self.passes = 0

    async def reconcile(self, obj: ConfigMap) -> Requeue | None:
        self.passes += 1
        shared = asyncio.ensure_future(asyncio.sleep(10))
        shared.cancel()
        await shared
        return None


class Mistaken(Controller[ConfigMap]):
    """Does or returns something that its type does not allow."""

    workers = 1

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.passes = 0

    async def reconcile(self, obj: ConfigMap) -> Requeue | None:
        self.passes += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def numbered(obj: Object, revision: int) -> None:
    obj.metadata.resource_version = str(revision)
    obj.metadata.uid = obj.metadata.name


def config(name: str, revision: int) -> ConfigMap:
    made = ConfigMap.named(name, "ns")
    numbered(made, revision)
    return made


def managing(controller: Controller[ConfigMap]) -> Manager:
    return Manager(Client(Access(server="http://127.0.0.1:1")), [controller])


async def test_who_waits_for_its_turn_collects_nothing() -> None:
    manager = managing(Idle())
    cache = manager.caches.of(ConfigMap)
    cache.replace([], "1")
    for number in range(100):
        cache.apply(config(f"c-{number}", 2 * number + 2))
        cache.apply(config(f"c-{number}", 2 * number + 3), deleted=True)
    assert len(manager.workers[0].queue) == 0


async def test_at_its_turn_whoever_is_concerned_is_due_also_if_it_is_gone() -> None:
    manager = managing(Idle())
    manager.caches.of(ConfigMap).replace([config("there", 1)], "5")
    orphan = Secret.named("orphan", "ns")
    numbered(orphan, 2)
    orphan.metadata.owner_references = [
        OwnerReference(api_version="v1", kind="ConfigMap", name="gone", uid="gone", controller=True)
    ]
    manager.caches.of(Secret).replace([orphan], "5")
    queue = manager.workers[0].queue
    manager.workers[0].add_all()
    assert {queue.take(), queue.take()} == {Key("ns", "there"), Key("ns", "gone")}
    manager.caches.of(ConfigMap).apply(config("new", 6))
    assert queue.take() == Key("ns", "new")


class Counting(Idle):
    """Keeps an index of its own."""

    def __init__(self) -> None:
        self.started = 0
        self.known: list[Key] = []
        self.known_when_mapped: list[int] = []
        self.watches = (mapped(Secret, by=self._mapped),)

    def start(self, cache: CacheView) -> None:
        self.started += 1
        cache[Secret].subscribe(lambda _, new, __: self.known.append(new.key) if new else None)

    def _mapped(self, secret: Secret, _: CacheView) -> list[Key]:
        self.known_when_mapped.append(len(self.known))
        return []


async def test_what_a_controller_follows_knows_a_change_before_anybody_is_woken_by_it() -> None:
    controller = Counting()
    manager = managing(controller)
    assert controller.started == 1
    manager.workers[0].add_all()
    cache = manager.caches.of(Secret)
    cache.replace([], "1")
    secret = Secret.named("s", "ns")
    numbered(secret, 2)
    cache.apply(secret)
    assert (controller.known, controller.known_when_mapped) == ([Key("ns", "s")], [1])


async def test_a_controller_can_put_keys_into_its_own_queue() -> None:
    controller = Idle()
    manager = managing(controller)
    controller.wake(Key("ns", "mine"))
    assert manager.workers[0].queue.take() == Key("ns", "mine")


def by_label(secret: Secret, _: CacheView) -> list[Key]:
    return [Key("ns", secret.metadata.labels["for"])]


def by_name_alone(secret: Secret, _: CacheView) -> Any:
    return secret.metadata.labels.get("for", "nobody")


@pytest.mark.parametrize(
    ("by", "woken", "why"),
    [
        (by_label, {Key("ns", "b")}, "KeyError: 'for'"),
        (by_name_alone, set(), "'n' is not a Key: name objects as Key(namespace, name)"),
    ],
)
async def test_a_mapping_that_fails_on_one_object_wakes_for_the_others_at_the_start_and_later(
    by: Any, woken: set[Key], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Mapping(Controller[ConfigMap]):
        watches = (mapped(Secret, by=by),)

        async def reconcile(self, obj: ConfigMap) -> Requeue | None:
            return None

    manager = managing(Mapping())
    workers, cache = manager.workers[0], manager.caches.of(Secret)
    plain, labelled = Secret.named("plain", "ns"), Secret.named("labelled", "ns")
    labelled.metadata.labels = {"for": "b"}
    for obj in (plain, labelled):
        numbered(obj, 1)

    def check() -> None:
        said = "Mapping cannot tell whom Secret ns/plain concerns, and wakes nobody for it"
        assert said in caplog.text
        assert why in caplog.text
        assert "a listener of" not in caplog.text
        due = set()
        while (key := workers.queue.take()) is not None:
            due.add(key)
            workers.queue.done(key)
        assert due == woken
        caplog.clear()

    cache.replace([plain, labelled], "1")
    workers.add_all()
    check()
    for obj in (plain, labelled):
        changed = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata))
        numbered(changed, 2)
        cache.apply(changed)
    check()


async def test_a_worker_survives_that_what_it_waited_for_was_cancelled() -> None:
    controller = Careless()
    manager = managing(controller)
    manager.caches.of(ConfigMap).replace([config(name, 1) for name in "abc"], "1")
    workers = manager.workers[0]
    workers.add_all()
    workers.start()
    try:
        await eventually(lambda: controller.passes > 3)
        assert workers.alive
    finally:
        await workers.stop()
    assert not workers.alive


@pytest.mark.parametrize(
    "answer",
    [5, "soon", Requeue, Requeue(delay=WORD), Requeue.at(WORD)],
    ids=repr,
)
async def test_a_wrong_answer_is_an_error_that_says_what_to_return(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Mistaken(answer)
    await passing_over(controller, lambda: controller.passes > 2)
    assert (
        f"ns/a: reconcile of Mistaken returned {answer!r}: return a Requeue or None; trying again"
        in caplog.records[0].getMessage()
    )


@pytest.mark.parametrize(
    "error", [TryAgainAfter("later", WORD), Unspeakable()], ids=["after", "str"]
)
async def test_an_error_that_nothing_can_be_made_of_ends_no_worker(error: Exception) -> None:
    controller = Mistaken(error)
    await passing_over(controller, lambda: controller.passes > 2)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError("boom"), "ns/a: KeyError: 'boom'; trying again in 40 ms"),
        (TimeoutError(), "ns/a: TimeoutError; trying again in 40 ms"),
        (ReconcileError("no node is free"), "ns/a: no node is free; trying again in 40 ms"),
        (TryAgainAfter("not yet", 2.5), "ns/a: not yet; trying again in 2.5 s"),
        (TryAgainNow("it moved"), "ns/a: it moved; trying again now"),
        (Unreachable("no answer"), "ns/a: no answer; trying again in 40 ms"),
    ],
    ids=repr,
)
async def test_a_failure_says_what_it_was_and_when_it_is_tried_again(
    error: Exception, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Fixed(Mistaken):
        backoff = Backoff(first=0.08, factor=1)

    caplog.set_level(logging.INFO)
    controller = Fixed(error)
    manager = Manager(Client(Access(server="http://127.0.0.1:1")), [controller], random=Lowest())
    await passing_over(controller, lambda: controller.passes > 0, manager)
    assert caplog.messages[0] == line


class Lowest(Random):
    def random(self) -> float:
        return 0.0


async def passing_over(
    controller: Controller[ConfigMap], until: Callable[[], bool], manager: Manager | None = None
) -> None:
    """Let its workers work on one object until then; nothing ends them."""
    manager = manager or managing(controller)
    manager.caches.of(ConfigMap).replace([config("a", 1)], "1")
    workers = manager.workers[0]
    workers.add_all()
    workers.start()
    try:
        await eventually(until)
        assert workers.alive
    finally:
        await workers.stop()
