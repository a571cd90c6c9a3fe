"""Events in virtual time: told once, counted, limited, and never worth a delay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from edgewise.kube.errors import Forbidden, NotFound, Unreachable
from edgewise.kube.kinds.events import Event
from edgewise.kube.objects import Kind, Object, ObjectMeta
from edgewise.runtime.events import BURST, MOST_WAITING, REFILL_SECONDS, EventRecorder
from edgewise.runtime.metrics import Metrics
from edgewise.testing.virtual_time import run_in_virtual_time


class Thing(Object):
    KIND = Kind("test.edgewise.dev", "v1", "Thing", "things")


THING = Thing(metadata=ObjectMeta(name="a", namespace="n", uid="uid-a"))


class FakeClient:
    def __init__(self) -> None:
        self.created: list[Event] = []
        self.patched: list[dict[str, Any]] = []
        self.errors: list[Exception] = []

    async def create(self, event: Event) -> Event:
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop(0)
        self.created.append(event)
        return event

    async def patch(self, kind: type[Event], name: str, namespace: str, *, body: Any) -> None:
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop(0)
        self.patched.append(body)


Scenario = Callable[[EventRecorder, FakeClient, Metrics], Coroutine[Any, Any, None]]


def play(scenario: Scenario) -> None:
    async def main() -> None:
        client, metrics = FakeClient(), Metrics()
        loop = asyncio.get_running_loop()
        recorder = EventRecorder(
            client,  # type: ignore[arg-type]
            clock=lambda: 1_700_000_000 + loop.time(),
            monotonic=loop.time,
            metrics=metrics,
        )
        running = asyncio.ensure_future(recorder.run())
        await scenario(recorder, client, metrics)
        assert not running.done()
        running.cancel()
        await asyncio.wait((running,))

    run_in_virtual_time(main())


def dropped(metrics: Metrics, reason: str) -> float:
    return metrics.value("edgewise_events_dropped_total", reason=reason)


def test_the_same_thing_said_again_is_counted_and_told_after_a_while() -> None:
    async def scenario(recorder: EventRecorder, client: FakeClient, _: Metrics) -> None:
        for _ in range(7):
            recorder.normal(THING, "Made", "made a pod")
            await asyncio.sleep(1)
        assert len(client.created) == 1
        await asyncio.sleep(60)
        assert client.patched[-1]["series"]["count"] == 7
        assert len(client.created) == 1

    play(scenario)


def test_an_object_that_has_too_much_to_say_is_cut_off_and_may_go_on_later() -> None:
    async def scenario(recorder: EventRecorder, client: FakeClient, metrics: Metrics) -> None:
        other = Thing(metadata=ObjectMeta(name="b", namespace="n", uid="uid-b"))
        for number in range(BURST + 10):
            recorder.warning(THING, "Odd", f"odd thing {number}")
        recorder.warning(other, "Odd", "only this")
        await asyncio.sleep(5)
        assert len(client.created) == BURST + 1
        assert dropped(metrics, "rate limit") == 10
        await asyncio.sleep(REFILL_SECONDS)
        recorder.warning(THING, "Odd", "one more")
        await asyncio.sleep(1)
        assert len(client.created) == BURST + 2

    play(scenario)


def test_telling_takes_no_time_even_when_nobody_listens() -> None:
    async def scenario(recorder: EventRecorder, client: FakeClient, metrics: Metrics) -> None:
        client.errors = [Unreachable("away")] * 100_000
        loop = asyncio.get_running_loop()
        before = loop.time()
        for number in range(MOST_WAITING + 50):
            thing = Thing(metadata=ObjectMeta(name=f"t-{number}", uid=f"uid-{number}"))
            recorder.normal(thing, "Made", "made it")
        assert loop.time() == before
        assert dropped(metrics, "too many waiting") == 50

    play(scenario)


def test_an_event_that_cannot_be_sent_is_tried_again_and_then_dropped() -> None:
    async def scenario(recorder: EventRecorder, client: FakeClient, metrics: Metrics) -> None:
        client.errors = [Unreachable("away"), Unreachable("away")]
        recorder.normal(THING, "Made", "made it")
        await asyncio.sleep(5)
        assert len(client.created) == 1
        client.errors = [Forbidden(403)]
        recorder.normal(THING, "Made", "made another")
        await asyncio.sleep(5)
        assert len(client.created) == 1
        assert dropped(metrics, "HTTP 403") == 1

    play(scenario)


def test_an_event_that_expired_at_the_server_is_made_again() -> None:
    async def scenario(recorder: EventRecorder, client: FakeClient, _: Metrics) -> None:
        recorder.normal(THING, "Made", "made it")
        await asyncio.sleep(1)
        client.errors = [NotFound(404)]
        recorder.normal(THING, "Made", "made it")
        await asyncio.sleep(70)
        assert [event.series and event.series.count for event in client.created][-1] == 2

    play(scenario)


def test_what_is_left_is_told_at_the_end_within_its_time() -> None:
    async def main() -> None:
        client, metrics = FakeClient(), Metrics()
        loop = asyncio.get_running_loop()
        recorder = EventRecorder(client, monotonic=loop.time, metrics=metrics)  # type: ignore[arg-type]
        for number in range(20):
            recorder.normal(THING, "Made", f"made {number}")
        await recorder.flush(timeout=0.105)
        assert len(client.created) == 10
        assert dropped(metrics, "shutdown") > 0

    run_in_virtual_time(main())


def test_events_of_things_without_a_namespace_go_to_the_default_one() -> None:
    async def scenario(recorder: EventRecorder, client: FakeClient, _: Metrics) -> None:
        recorder.normal(Thing(metadata=ObjectMeta(name="node", uid="u")), "Made", "made it")
        await asyncio.sleep(1)
        assert client.created[0].metadata.namespace == "default"

    play(scenario)
