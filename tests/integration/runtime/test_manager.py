"""A manager and its controllers against a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from edgewise.kube.client import Client, Patch
from edgewise.kube.errors import Conflict, NotFound
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.kube.kinds.events import Event
from edgewise.kube.objects import Key
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.runtime.controller import Controller
from edgewise.runtime.listening.listener import PortInUse
from edgewise.runtime.manager import Election, Listen, Manager
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import NotUntilItChanges
from edgewise.runtime.watches import CacheView, mapped, owned, read
from edgewise.testing.eventually import eventually
from tests.integration.runtime.widgets import Running, Widget, WidgetStatus


class SecretPerConfigMap(Controller[ConfigMap]):
    """Owns a Secret for each ConfigMap, and makes it again whenever it is missing."""

    watches = (owned(Secret),)
    made = 0

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        if not self.cache[Secret].owned_by(config):
            secret = Secret.named("", config.metadata.namespace)
            secret.metadata.generate_name = f"{config.metadata.name}-"
            secret.metadata.owner_references = [config.owner_reference()]
            await self.api.create(secret)
            self.made += 1
            # If this were seen only when the watch brings it, the next line would make another.
            await self.api.patch(config, {"data": {"made": str(self.made)}})
        return None


async def test_an_owned_object_is_made_once_and_again_when_somebody_deletes_it(
    client: Client, namespace: str, run: Running
) -> None:
    controller = SecretPerConfigMap()
    names = [f"c-{number}" for number in range(10)]
    async with run(client, controller):
        for name in names:
            await client.create(ConfigMap.named(name, namespace))
        await eventually(lambda: controller.made >= len(names))
        (first,) = [
            secret
            for secret in (await client.list(Secret, namespace)).items
            if secret.metadata.generate_name == "c-0-"
        ]
        await client.delete(Secret, first.metadata.name, namespace)
        await eventually(lambda: controller.made >= len(names) + 1)
    left = (await client.list(Secret, namespace)).items
    assert sorted(secret.metadata.generate_name for secret in left) == [f"{n}-" for n in names]


class CountUp(Controller[Widget]):
    """Copies the size to the status, and counts."""

    reconciles = 0

    async def reconcile(self, widget: Widget) -> Requeue | None:
        self.reconciles += 1
        status = WidgetStatus(size=widget.spec.size, observed_generation=widget.metadata.generation)
        await self.api.write_status(widget, status)
        return None


class CountSpecChanges(CountUp, Controller[Widget]):
    wakes_on_status = False


async def test_status_is_written_once_for_each_change_and_not_at_all_without_one(
    client: Client, namespace: str, run: Running, widgets: type[Widget]
) -> None:
    controller = CountUp()
    async with run(client, controller) as manager:

        def patches() -> float:
            return manager.metrics.value(
                "edgewise_api_requests_total", verb="patch", kind="Widget", code="200"
            )

        for size in (3, 4):
            await client.apply(Widget.named("w", namespace, spec={"size": size}))
            await eventually(lambda size=size: manager_sees(manager, namespace, size))
        # The stream may show a status before the answer to its patch has been read.
        await eventually(lambda: at_rest(manager))
        assert patches() == 2
        before = controller.reconciles
        await client.patch(
            Widget, "w", namespace, body={"metadata": {"labels": {"touched": "yes"}}}
        )
        await eventually(lambda: controller.reconciles > before)
        await eventually(lambda: at_rest(manager))
        assert patches() == 2


def at_rest(manager: Manager) -> bool:
    queue = manager.workers[0].queue
    return len(queue) + queue.working + queue.delayed == 0


class Again(Controller[ConfigMap]):
    """Never done."""

    reconciles = 0

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        self.reconciles += 1
        return Requeue.after(0.01)


@pytest.mark.parametrize("elected", [False, True])
async def test_a_manager_that_is_cancelled_leaves_nobody_acting(
    client: Client, namespace: str, elected: bool
) -> None:
    await client.create(ConfigMap.named("c", namespace))
    controller = Again()
    election = Election("again", namespace) if elected else None
    manager = Manager(client, [controller], namespace=namespace, election=election)
    running = asyncio.create_task(manager.run(signals=False))
    await eventually(lambda: controller.reconciles > 2)
    running.cancel()
    await asyncio.wait((running,), timeout=5)
    assert not manager.acting
    assert not any(workers.alive for workers in manager.workers)


def manager_sees(manager: Manager, namespace: str, size: int) -> bool:
    seen = manager.caches.of(Widget, Selection(namespace=namespace)).find("w", namespace)
    return seen is not None and seen.status.size == size


async def test_a_controller_may_sleep_through_changes_of_the_status(
    client: Client, namespace: str, run: Running, widgets: type[Widget]
) -> None:
    controller = CountSpecChanges()
    async with run(client, controller) as manager:
        await client.create(Widget.named("w", namespace, spec={"size": 1}))
        await eventually(lambda: manager_sees(manager, namespace, 1))
        await client.patch(
            Widget, "w", namespace, body={"status": {"notes": {"a": "b"}}}, subresource="status"
        )
        await client.patch(Widget, "w", namespace, body={"spec": {"size": 2}})
        await eventually(lambda: manager_sees(manager, namespace, 2))
        assert controller.reconciles == 2


async def test_a_field_that_went_back_to_its_default_disappears_from_the_status(
    client: Client, namespace: str, run: Running, widgets: type[Widget]
) -> None:
    class Idle(Controller[Widget]):
        async def reconcile(self, widget: Widget) -> Requeue | None:
            return None

    async with run(client, Idle()) as manager:
        widget = await client.create(Widget.named("w", namespace))
        first = WidgetStatus(size=1, notes={"a": "1", "b": "2"})
        await manager.api.write_status(widget, first)
        # From the old object, on purpose: the difference is to what was written last.
        await manager.api.write_status(widget, WidgetStatus(notes={"a": "1"}))
    body = await client.request("GET", Widget.KIND.path(namespace, "w"))
    assert msgspec.json.decode(body)["status"] == {"notes": {"a": "1"}}


async def test_a_patch_never_hits_a_successor_of_the_same_name(
    client: Client, namespace: str, run: Running, widgets: type[Widget]
) -> None:
    class Idle(Controller[Widget]):
        async def reconcile(self, widget: Widget) -> Requeue | None:
            return None

    async with run(client, Idle()) as manager:
        old = await client.create(Widget.named("w", namespace))
        await client.delete(Widget, "w", namespace)
        new = await client.create(Widget.named("w", namespace))
        await eventually(lambda: manager_has(manager, namespace, new.metadata.uid))
        with pytest.raises(Conflict):
            await manager.api.patch(old, {"spec": {"size": 5}})
        assert not await manager.api.delete(old)
        assert (await client.get(Widget, "w", namespace)).spec.size == 0


def manager_has(manager: Manager, namespace: str, uid: str) -> bool:
    seen = manager.caches.of(Widget, Selection(namespace=namespace)).find("w", namespace)
    return seen is not None and seen.metadata.uid == uid


class Deleter(Controller[ConfigMap]):
    """Deletes the Secret of the same name, and looks at once whether it is still there."""

    watches = (read(Secret),)

    def __init__(self) -> None:
        self.seen_after: list[bool] = []

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        secret = self.cache[Secret].get(config.key)
        if secret is not None:
            await self.api.delete(secret)
            self.seen_after.append(config.key in self.cache[Secret])
        return None


async def test_what_a_reconcile_deletes_is_gone_for_it_at_once(
    client: Client, namespace: str, run: Running
) -> None:
    for number in range(20):
        await client.create(Secret.named(f"s-{number}", namespace))
    controller = Deleter()
    async with run(client, controller):
        for number in range(20):
            await client.create(ConfigMap.named(f"s-{number}", namespace))
        await eventually(lambda: len(controller.seen_after) >= 20)
    assert controller.seen_after == [False] * 20


async def test_a_held_object_is_seen_as_leaving_after_our_delete(
    client: Client, namespace: str, run: Running
) -> None:
    secret = Secret.named("held", namespace)
    secret.metadata.finalizers = ["test.edgewise.dev/hold"]
    await client.create(secret)
    controller = Deleter()
    async with run(client, controller) as manager:
        await client.create(ConfigMap.named("held", namespace))
        await eventually(lambda: controller.seen_after)
        seen = manager.caches.of(Secret, Selection(namespace=namespace)).find("held", namespace)
        assert seen is not None
        assert seen.metadata.deleting
        # Letting it go is a write of ours too: it is not there any more.
        await manager.api.remove_finalizer(seen, "test.edgewise.dev/hold")
        assert Key(namespace, "held") not in controller.cache[Secret]
    with pytest.raises(NotFound):
        await client.get(Secret, "held", namespace)


class WithFinalizer(Controller[ConfigMap]):
    finalizer = "test.edgewise.dev/clean-up"

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        assert self.finalizer in config.metadata.finalizers
        self.steps.append("reconcile")
        return None

    async def finalize(self, config: ConfigMap) -> Requeue | None:
        self.steps.append("finalize")
        # The first time something is left to do.
        return Requeue.after(0.05) if self.steps.count("finalize") == 1 else None

    async def gone(self, key: Key) -> None:
        self.steps.append(f"gone {key.name}")


async def test_an_object_with_a_finalizer_goes_when_it_was_cleaned_up(
    client: Client, namespace: str, run: Running
) -> None:
    controller = WithFinalizer()
    config = ConfigMap.named("a", namespace)
    config.metadata.finalizers = ["test.edgewise.dev/somebody-elses"]
    async with run(client, controller):
        await client.create(config)
        await eventually(lambda: "reconcile" in controller.steps)
        await client.delete(ConfigMap, "a", namespace)
        await eventually(lambda: controller.steps.count("finalize") == 2)
        # Only ours was removed.
        await eventually(lambda: only_theirs_left(client, namespace))
        await client.patch(
            ConfigMap, "a", namespace, body={"metadata": {"finalizers": None}}, type=Patch.MERGE
        )
        await eventually(lambda: controller.steps[-1] == "gone a")
    assert controller.steps.count("finalize") == 2


async def only_theirs_left(client: Client, namespace: str) -> bool:
    config = await client.get(ConfigMap, "a", namespace)
    return config.metadata.finalizers == ["test.edgewise.dev/somebody-elses"]


def namesakes(secret: Secret, cache: CacheView) -> list[Key]:
    return [config.key for config in cache[ConfigMap].all() if config.key == secret.key]


class Strict(Controller[ConfigMap]):
    """Refuses to work without a Secret of the same name."""

    watches = (mapped(Secret, by=namesakes),)

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        if config.key not in self.cache[Secret]:
            self.outcomes.append("refused")
            raise NotUntilItChanges(f"there is no Secret {config.key}")
        self.outcomes.append("accepted")
        return None


async def test_an_error_that_waits_for_a_change_waits_for_what_is_mapped_too(
    client: Client, namespace: str, run: Running
) -> None:
    controller = Strict()
    async with run(client, controller):
        await client.create(ConfigMap.named("a", namespace))
        await eventually(lambda: controller.outcomes == ["refused"])
        await client.create(Secret.named("unrelated", namespace))
        await client.create(Secret.named("a", namespace))
        await eventually(lambda: controller.outcomes == ["refused", "accepted"])


class Repeating(Controller[ConfigMap]):
    def __init__(self) -> None:
        self.passes = 0

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        self.passes += 1
        match self.passes:
            case 1:
                return Requeue.now()
            case 2:
                return Requeue.after(0.02)
            case 3:
                return Requeue.at(self.clock() + 0.02)
            case 4:
                raise RuntimeError("a mistake")
            case _:
                return Requeue.never()


async def test_a_reconcile_runs_again_now_later_at_a_time_and_after_a_failure(
    client: Client, namespace: str, run: Running
) -> None:
    controller = Repeating()
    async with run(client, controller) as manager:
        await client.create(ConfigMap.named("a", namespace))
        await eventually(lambda: controller.passes >= 5)
        assert manager.metrics.value("edgewise_queue_retries_total", controller="Repeating") == 1.0


class Slow(Controller[ConfigMap]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started = 0
        self.finished = 0

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        self.started += 1
        await asyncio.sleep(self.seconds)
        self.finished += 1
        return None


async def test_running_reconciles_finish_before_the_end(
    client: Client, namespace: str, run: Running
) -> None:
    controller = Slow(0.3)
    for number in range(3):
        await client.create(ConfigMap.named(f"a-{number}", namespace))
    async with run(client, controller):
        await eventually(lambda: controller.started == 3)
        assert controller.finished == 0
    assert controller.finished == 3


async def test_a_reconcile_that_takes_longer_than_the_grace_time_is_ended(
    client: Client, namespace: str, run: Running
) -> None:
    controller = Slow(3600)
    await client.create(ConfigMap.named("a", namespace))
    async with run(client, controller, grace=0.1):
        await eventually(lambda: controller.started == 1)
    assert controller.finished == 0


async def test_events_are_told_once_with_a_count(
    client: Client, namespace: str, run: Running
) -> None:
    class Chatty(Controller[ConfigMap]):
        async def reconcile(self, config: ConfigMap) -> Requeue | None:
            for _ in range(5):
                self.events.warning(config, "Odd", "this looks odd")
            self.events.normal(config, "Seen", "have seen it")
            return None

    config = await client.create(ConfigMap.named("a", namespace))
    async with run(client, Chatty()):
        await eventually(lambda: told(client, namespace, {"Odd", "Seen"}))
    # The count that grew meanwhile is told at the end.
    events = {event.reason: event for event in (await client.list(Event, namespace)).items}
    assert set(events) == {"Odd", "Seen"}
    odd = events["Odd"]
    assert odd.type == "Warning"
    assert odd.regarding is not None
    assert odd.regarding.uid == config.metadata.uid
    assert odd.series is not None
    assert odd.series.count == 5
    assert events["Seen"].series is None


async def told(client: Client, namespace: str, reasons: set[str]) -> bool:
    return {event.reason for event in (await client.list(Event, namespace)).items} == reasons


WIDGET = ConditionSet(needs=("Sized",), fears=("Degraded",))


async def test_conditions_reach_the_status(
    client: Client, namespace: str, run: Running, widgets: type[Widget]
) -> None:
    class Conditions(Controller[Widget]):
        async def reconcile(self, widget: Widget) -> Requeue | None:
            findings = [
                Finding("Sized", widget.spec.size > 0, "SizeChecked"),
                Finding("Degraded", False, "AllWell"),
            ]
            conditions = WIDGET.report(
                widget.status.conditions,
                findings,
                generation=widget.metadata.generation,
                now=self.clock(),
            )
            await self.api.write_status(widget, WidgetStatus(conditions=conditions))
            return None

    async def ready(status: str) -> bool:
        widget = await client.get(Widget, "w", namespace)
        return {each.type: each.status for each in widget.status.conditions}.get("Ready") == status

    async with run(client, Conditions()):
        await client.create(Widget.named("w", namespace))
        await eventually(lambda: ready("False"))
        await client.patch(Widget, "w", namespace, body={"spec": {"size": 1}})
        await eventually(lambda: ready("True"))


async def test_health_readiness_and_metrics_are_served(
    client: Client, namespace: str, run: Running
) -> None:
    async with run(client, Repeating(), listen=Listen(port=0)) as manager:
        assert manager.health is not None
        root = f"http://127.0.0.1:{manager.health.port}"
        await client.create(ConfigMap.named("a", namespace))
        async with aiohttp.ClientSession() as session:

            async def fetch(path: str) -> tuple[int, str]:
                async with session.get(root + path) as answer:
                    return answer.status, await answer.text()

            assert await fetch("/healthz") == (200, "workers: ok\ncaches: ok\n")
            assert await fetch("/readyz") == (200, "caches: ok\n")
            status, text = await fetch("/metrics")
        assert status == 200
        for name in (
            'edgewise_queue_depth{controller="Repeating"}',
            "edgewise_cache_age_seconds",
            'edgewise_api_requests_total{code="200",kind="ConfigMap",verb="list"}',
            "edgewise_reconcile_seconds_bucket",
            "edgewise_leading 1.0",
        ):
            assert name in text


async def test_a_port_in_use_is_named(client: Client, namespace: str, run: Running) -> None:
    async with run(client, Repeating(), listen=Listen(port=0)) as manager:
        assert manager.health is not None
        port = manager.health.port
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is in use"):
            await Manager(client, [], listen=Listen(port=port)).run(signals=False)


async def test_controllers_share_one_watch_per_kind_and_selection(
    client: Client, namespace: str, run: Running
) -> None:
    one, two = Deleter(), Strict()
    async with run(client, one, two) as manager:
        assert one.cache[Secret] is two.cache[Secret]
        lists: Any = manager.metrics.value("edgewise_lists_total", cache=f"secrets[{namespace}]")
        assert lists == 1.0
        with pytest.raises(KeyError, match="Deleter does not declare Widget"):
            one.cache[Widget]
