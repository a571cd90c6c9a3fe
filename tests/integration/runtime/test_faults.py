"""One fault at a time between the runtime and a real API server, through the fault proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.reflector import Reflector
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import owned
from edgewise.testing.eventually import eventually
from edgewise.testing.fault_proxy import FaultProxy, Upstream
from edgewise.testing.faults import Asking, Fault, Script
from tests.integration.conftest import ApiServer
from tests.integration.runtime.widgets import Running

QUICK = Backoff(first=0.02, most=0.2)


@pytest.fixture
async def proxy(api_server: ApiServer) -> AsyncIterator[FaultProxy]:
    async with (
        Upstream(load_access(api_server.kubeconfig)).connected() as upstream,
        FaultProxy(upstream, Script()).running() as running,
    ):
        yield running


@pytest.fixture
def script(proxy: FaultProxy) -> Script:
    assert isinstance(proxy.faults, Script)
    return proxy.faults


@pytest.fixture
async def faulty(proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client behind the proxy."""
    async with Client(proxy.access, timeout=2.0) as client:
        yield client


@contextlib.asynccontextmanager
async def reflecting(
    client: Client, namespace: str, *, idle_timeout: float = 30.0, metrics: Metrics | None = None
) -> AsyncIterator[Cache[ConfigMap]]:
    cache = Cache(ConfigMap, selection=Selection(namespace=namespace))
    reflector = Reflector(
        client, cache, page=3, idle_timeout=idle_timeout, backoff=QUICK, metrics=metrics
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def fill(client: Client, namespace: str, *names: str) -> None:
    for name in names:
        await client.create(ConfigMap.named(name, namespace))


async def same(cache: Cache[ConfigMap], client: Client, namespace: str) -> bool:
    """Whether the cache shows what the API server has, version by version."""
    listed = (await client.list(ConfigMap, namespace)).items
    expected = {obj.key: (obj.metadata.uid, obj.metadata.resource_version) for obj in listed}
    shown = {obj.key: (obj.metadata.uid, obj.metadata.resource_version) for obj in cache}
    return cache.synced and shown == expected


NAMES = tuple("abcdefgh")  # three pages


@pytest.mark.parametrize("fault", [Fault.GONE, Fault.ERROR, Fault.CUT, Fault.HALF, Fault.TOO_MANY])
@pytest.mark.parametrize("asking", [Asking.LIST, Asking.PAGE])
async def test_a_list_survives(
    *, client: Client, faulty: Client, namespace: str, script: Script, asking: Asking, fault: Fault
) -> None:
    await fill(client, namespace, *NAMES)
    script.then(asking, fault, fault)
    async with reflecting(faulty, namespace) as cache:
        await eventually(lambda: same(cache, client, namespace))
        # An expired continue token is answered by a list in one piece, without more pages.
        assert script.played or (asking is Asking.PAGE and fault is Fault.GONE)


@pytest.mark.parametrize(
    "fault",
    [Fault.GONE, Fault.ERROR, Fault.CUT, Fault.LOST, Fault.SILENT, Fault.TOO_MANY],
)
async def test_the_start_of_a_watch_survives(
    client: Client, faulty: Client, namespace: str, script: Script, fault: Fault
) -> None:
    await fill(client, namespace, "a")
    script.then(Asking.WATCH, fault, fault)
    async with reflecting(faulty, namespace, idle_timeout=0.5) as cache:
        await eventually(lambda: same(cache, client, namespace))
        await fill(client, namespace, "b")
        await client.delete(ConfigMap, "a", namespace)
        await eventually(lambda: same(cache, client, namespace))
        await eventually(lambda: script.played)


@pytest.mark.parametrize(
    "fault", [Fault.GONE, Fault.CUT, Fault.HALF, Fault.SILENT, Fault.DELAY, Fault.REPEAT]
)
async def test_a_running_watch_survives(
    client: Client, faulty: Client, namespace: str, script: Script, fault: Fault
) -> None:
    await fill(client, namespace, "a", "b")
    script.then(Asking.EVENT, None, fault, None, fault)
    async with reflecting(faulty, namespace, idle_timeout=0.5) as cache:
        await eventually(lambda: same(cache, client, namespace))
        await fill(client, namespace, "c", "d", "e")
        await client.delete(ConfigMap, "a", namespace)
        await client.patch(ConfigMap, "b", namespace, body={"data": {"x": "1"}})
        await client.delete(ConfigMap, "d", namespace)
        await fill(client, namespace, "d", "f")
        await eventually(lambda: same(cache, client, namespace))
        await eventually(lambda: script.played)


async def test_what_was_deleted_while_history_expired_is_noticed(
    client: Client, faulty: Client, namespace: str, proxy: FaultProxy, script: Script
) -> None:
    await fill(client, namespace, *NAMES)
    async with reflecting(faulty, namespace) as cache:
        await eventually(lambda: same(cache, client, namespace))
        deleted = []
        cache.subscribe(lambda old, new, _: deleted.append(old) if new is None else None)
        script.then(Asking.WATCH, Fault.GONE)
        proxy.refusing = True
        proxy.cut_all()
        await client.delete(ConfigMap, "a", namespace)
        await client.delete(ConfigMap, "b", namespace)
        await fill(client, namespace, "b")
        proxy.refusing = False
        await eventually(lambda: same(cache, client, namespace))
        assert sorted(each.metadata.name for each in deleted) == ["a", "b"]


async def test_a_half_open_watch_is_noticed(
    client: Client, faulty: Client, namespace: str, proxy: FaultProxy
) -> None:
    async with reflecting(faulty, namespace, idle_timeout=1.0) as cache:
        await eventually(lambda: same(cache, client, namespace))
        proxy.mute_all()
        await fill(client, namespace, "a")
        await eventually(lambda: same(cache, client, namespace))


async def test_a_cut_watch_goes_on_where_it_was_without_a_new_list(
    client: Client, faulty: Client, namespace: str, proxy: FaultProxy, script: Script
) -> None:
    metrics = Metrics()
    async with reflecting(faulty, namespace, metrics=metrics) as cache:
        await eventually(lambda: same(cache, client, namespace))
        for name in "abc":
            proxy.cut_all()
            await fill(client, namespace, name)
            await eventually(lambda: same(cache, client, namespace))
        assert metrics.value("edgewise_lists_total", cache=cache.name) == 1


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("component", ["api_server", "etcd"])
async def test_a_restart_is_survived(
    client: Client, namespace: str, api_server: ApiServer, component: str, kill: bool
) -> None:
    await fill(client, namespace, "a", "b")
    async with reflecting(client, namespace) as cache:
        await eventually(lambda: same(cache, client, namespace))
        restart = getattr(api_server, f"restart_{component}")
        await asyncio.to_thread(restart, kill=kill)
        await client.delete(ConfigMap, "a", namespace)
        await fill(client, namespace, "c")
        await eventually(lambda: same(cache, client, namespace), within=30)


class OneSecretEach(Controller[ConfigMap]):
    """Owns one Secret for each ConfigMap, under a name that the API server makes."""

    watches = (owned(Secret),)
    backoff = Backoff(first=0.01, most=0.1)

    def __init__(self) -> None:
        self.passes = 0

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        self.passes += 1
        secrets = self.cache[Secret].owned_by(config)
        if not secrets:
            secret = Secret.named("", config.metadata.namespace)
            secret.metadata.generate_name = "made-"
            secret.metadata.owner_references = [config.owner_reference()]
            await self.api.create(secret)
        for secret in secrets:
            if "done" not in secret.metadata.annotations:
                await self.api.patch(secret, {"metadata": {"annotations": {"done": "yes"}}})
        return None


@pytest.mark.parametrize(
    "fault",
    [
        Fault.CONFLICT,
        Fault.TOO_MANY,
        Fault.ERROR,
        Fault.CUT,
        Fault.LOST,
        Fault.HALF,
        Fault.SILENT,
    ],
)
async def test_a_write_in_doubt_is_neither_lost_nor_made_twice(
    *, client: Client, faulty: Client, namespace: str, proxy: FaultProxy, run: Running, fault: Fault
) -> None:
    # With a slow watch: whoever acts on what it has shown so far makes a second one.
    proxy.delay = 0.4
    script = Script().then(Asking.EVENT, *[Fault.DELAY] * 50)
    proxy.faults = script.then(Asking.WRITE, fault, None, fault, fault)

    def marked(manager: Manager) -> bool:
        secrets = manager.caches.of(Secret, Selection(namespace=namespace)).all()
        return len(secrets) == 1 and "done" in secrets[0].metadata.annotations

    async with run(faulty, OneSecretEach()) as manager:
        await fill(client, namespace, "a")
        await eventually(lambda: marked(manager), within=20)
    assert len((await client.list(Secret, namespace)).items) == 1


@pytest.mark.parametrize("answer", [Fault.CONFLICT, Fault.TOO_MANY, Fault.CUT])
async def test_a_create_that_is_carried_out_late_makes_no_second_one(
    *,
    client: Client,
    faulty: Client,
    namespace: str,
    proxy: FaultProxy,
    run: Running,
    answer: Fault,
) -> None:
    # Its next attempts are refused, and the one that succeeds comes before it.
    proxy.late = 3.0
    proxy.faults = script = Script().then(Asking.WRITE, Fault.LATE, answer)

    async def one() -> None:
        assert script.played
        assert len((await client.list(Secret, namespace)).items) == 1

    async with run(faulty, OneSecretEach()):
        await fill(client, namespace, "a")
        await eventually(one, within=20)
        await proxy.all_carried_out()
        await one()


async def test_a_conflict_is_tried_again_at_once_on_fresh_data(
    client: Client, faulty: Client, namespace: str, script: Script, run: Running
) -> None:
    script.then(Asking.WRITE, Fault.CONFLICT)
    controller = OneSecretEach()
    async with run(faulty, controller) as manager:
        await fill(client, namespace, "a")
        await eventually(lambda: controller.passes >= 2)
        retried = manager.metrics.value(
            "edgewise_reconciles_total", controller="OneSecretEach", outcome="now"
        )
        assert retried == 1
