"""One seeded run: a controller behind the fault proxy, somebody who changes things, and faults.

The controller keeps one Secret for each ConfigMap, under a name that the API server makes:
a write that is forgotten or done twice shows. Afterwards, when the faults have stopped, the
caches must equal the API server's state, and every ConfigMap must have exactly its Secret.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, KubeError, NotFound
from edgewise.kube.kinds.core import ConfigMap, Namespace, Secret
from edgewise.kube.objects import Key, Object
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.cache import Cache, number
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import owned
from edgewise.testing.eventually import eventually
from edgewise.testing.fault_proxy import FaultProxy, Upstream
from edgewise.testing.faults import SeededFaults

VALUE = "edgewise.dev/value"
RUN = "edgewise.dev/run"
NAMES = tuple(f"source-{number}" for number in range(6))
CHANGES = 25
SETTLED_WITHIN = 120.0  # spent only where something is wrong, or the machine is very busy


class ConnectedCluster(Controller[ConfigMap]):
    """Keeps one Secret with the same value for each ConfigMap; notes every broken promise."""

    workers = 4
    backoff = Backoff(first=0.01, most=0.3)

    def __init__(self, run: str, direct: Client, random: Random) -> None:
        self.run = run
        self.direct = direct
        self.chance = random
        self.broken: list[str] = []
        self.running: set[Key] = set()
        self.written: dict[Key, dict[Key, Secret]] = {}
        self.known: set[Key] = set()

    async def reconcile(self, source: ConfigMap) -> Requeue | None:
        await self._keep(source.key, source)
        # Time enough for a step of the wall clock to come between.
        again = self.chance.random()
        if again < 0.1:
            return Requeue.at(self.clock() + 0.02)
        return Requeue.after(0.02) if again < 0.2 else None

    async def finalize(self, source: ConfigMap) -> Requeue | None:
        await self._keep(source.key, None, owner=source)
        return None

    async def _keep(
        self, key: Key, source: ConfigMap | None, owner: ConfigMap | None = None
    ) -> None:
        if key in self.running:
            self.broken.append(f"{key} is reconciled twice at once")
        self.running.add(key)
        try:
            await self._check_own_writes(key)
            if self.chance.random() < 0.05:
                raise RuntimeError("a mistake, on purpose")
            await self._mirror(source or owner, wanted=source is not None)
        finally:
            self.running.discard(key)

    async def _check_own_writes(self, key: Key) -> None:
        """Whatever this key wrote last must be in the cache, or something later."""
        for name, wrote in self.written.get(key, {}).items():
            cached = self.cache[Secret].get(name)
            if cached is not None:
                if number(cached.metadata.resource_version) < number(
                    wrote.metadata.resource_version
                ):
                    self.broken.append(
                        f"{key} acts on a {name} of {cached.metadata.resource_version}, older "
                        f"than its own write {wrote.metadata.resource_version}; "
                        f"seen up to {self.cache[Secret].revision}"
                    )
            elif await self._exists(wrote):
                self.broken.append(f"{key} does not see {name}, which it wrote")

    async def _exists(self, secret: Secret) -> bool:
        try:
            now = await self.direct.get(Secret, secret.metadata.name, secret.metadata.namespace)
        except KubeError:
            return False
        # The stream may have brought it (and more) while we asked.
        return now.metadata.uid == secret.metadata.uid and secret.key not in self.cache[Secret]

    async def _mirror(self, source: ConfigMap | None, *, wanted: bool) -> None:
        assert source is not None
        mine = self.written.setdefault(source.key, {})
        secrets = self.cache[Secret].owned_by(source)
        if len(secrets) > 1:
            found = [f"{each.metadata.name} {each.metadata.resource_version}" for each in secrets]
            self.broken.append(f"{source.key} has {len(secrets)} Secrets: {', '.join(found)}")
        if not wanted:
            for secret in secrets:
                await self.api.delete(secret)
                mine.pop(secret.key, None)
            return
        value = source.data.get("value", "")
        if not secrets:
            new = Secret.named("", source.metadata.namespace)
            new.metadata.generate_name = f"{source.metadata.name}-"
            new.metadata.labels = {RUN: self.run}
            new.metadata.annotations = {VALUE: value}
            new.metadata.owner_references = [source.owner_reference()]
            made = await self.api.create(new)
            self.known.add(made.key)
            mine[made.key] = made
        elif secrets[0].metadata.annotations.get(VALUE) != value:
            patch = {"metadata": {"annotations": {VALUE: value}}}
            made = await self.api.patch(secrets[0], patch)
            mine[made.key] = made


class FinalizingMirror(ConnectedCluster, Controller[ConfigMap]):
    finalizer = "chaos.edgewise.dev/mirror"


class Journal:
    """What a cache was told last: without it nobody could say how a promise was broken."""

    TOLD = ("replace", "apply", "progress", "write_through", "bury")

    def __init__(self, cache: Cache[Any], broken: list[str]) -> None:
        self.lines: deque[str] = deque(maxlen=150)
        self.broken = broken
        for name in self.TOLD:
            setattr(cache, name, self._noting(cache, name, getattr(cache, name)))

    def _noting(self, cache: Cache[Any], name: str, tell: Callable[..., None]) -> Any:
        def noting(what: Any, *args: Any, **options: Any) -> None:
            subject = what
            if isinstance(what, Object):
                meta = what.metadata
                subject = f"{meta.name} {meta.resource_version} of {meta.uid[:8]}"
            elif isinstance(what, list):
                subject = " ".join(f"{o.metadata.name}:{o.metadata.resource_version}" for o in what)
            if name == "replace" and number(args[0]) < cache.revision:
                self.broken.append(f"a list of {args[0]} sets {cache.revision} back")
            at = f"{time.monotonic():.3f} at {cache.revision}"
            self.lines.append(f"{at}: {name} {subject} {args} {options}")
            tell(what, *args, **options)

        return noting


class MirrorRun:
    def __init__(self, seed: int, direct: Client, upstream: Upstream) -> None:
        self.seed = seed
        self.direct = direct
        self.upstream = upstream
        self.random = Random(seed)
        self.run = f"run-{seed}-{int(time.time())}"
        self.offset = 0.0
        self.faults = SeededFaults(seed)
        self.faults_end = False
        # Some runs select by namespace, some by label in a namespace that all share.
        self.by_label = self.random.random() < 0.5
        self.namespace = "default" if self.by_label else self.run
        self.selection = (
            Selection(labels=f"{RUN}={self.run}")
            if self.by_label
            else Selection(namespace=self.namespace)
        )

    async def __call__(self) -> None:
        if not self.by_label:
            await self._surely(lambda: self.direct.create(Namespace.named(self.namespace)))
        async with (
            FaultProxy(self.upstream, self.faults, delay=0.1).running() as proxy,
            Client(proxy.access, timeout=2.0) as client,
        ):
            controller = self._controller()
            manager = Manager(
                client,
                [controller],
                page=self.random.choice([2, 3, 500]),
                idle_timeout=0.7,
                watch_backoff=Backoff(first=0.01, most=0.5),
                clock=lambda: time.time() + self.offset,
                random=Random(self.seed),
                grace=5.0,
            )
            journal = Journal(manager.caches.of(Secret, self.selection), controller.broken)
            task = asyncio.create_task(manager.run(signals=False))
            try:
                await self._change_things(proxy)
                self.faults.heal()
                self.offset += 86_400  # whatever waits for a moment has reached it now
                await eventually(
                    lambda: self._settled(manager, controller), within=SETTLED_WITHIN, every=0.1
                )
            finally:
                manager.stop()
                await asyncio.wait_for(task, 30)
        told = "\n      ".join(journal.lines)
        assert not controller.broken, f"{controller.broken}\n    its Secrets:\n      {told}"
        assert not controller.running

    def _controller(self) -> ConnectedCluster:
        kind = FinalizingMirror if self.random.random() < 0.4 else ConnectedCluster
        controller = kind(self.run, self.direct, Random(self.seed + 1))
        select = self.selection
        controller.selection = select
        controller.watches = (owned(Secret, namespace=select.namespace, labels=select.labels),)
        return controller

    # Somebody who changes things ------------------------------------------------------

    async def _change_things(self, proxy: FaultProxy) -> None:
        for serial in range(CHANGES):
            await self._surely(lambda serial=serial: self._one_change(serial))
            self._disturb(proxy)
            if self.random.random() < 0.4:
                await asyncio.sleep(self.random.random() * 0.03)
            proxy.refusing = False

    async def _one_change(self, serial: int) -> None:
        name = self.random.choice(NAMES)
        what = self.random.random()
        named = f"{self.run}-{name}"
        if what < 0.55:
            await self._set_value(named, f"value-{serial}")
        elif what < 0.75:
            await self._delete(named)
        elif what < 0.85:
            # Gone and there again, before anybody has looked.
            await self._delete(named)
            await self._set_value(named, f"value-{serial}")
        else:
            secrets = await self._list(Secret)
            if secrets:
                victim = self.random.choice(sorted(secrets))
                await self.direct.delete(Secret, victim.name, victim.namespace)

    async def _delete(self, name: str) -> None:
        # In this very version: the API server's own delete does not look whether a finalizer
        # was added since it began, and the object would go without being cleaned up.
        version = (await self.direct.get(ConfigMap, name, self.namespace)).metadata
        await self.direct.delete(
            ConfigMap, name, self.namespace, resource_version=version.resource_version
        )

    async def _set_value(self, name: str, value: str) -> None:
        config = ConfigMap.named(name, self.namespace, data={"value": value})
        config.metadata.labels = {RUN: self.run}
        try:
            await self.direct.create(config)
        except AlreadyExists:
            await self.direct.patch(
                ConfigMap, name, self.namespace, body={"data": {"value": value}}
            )

    def _disturb(self, proxy: FaultProxy) -> None:
        what = self.random.random()
        if what < 0.05:
            proxy.cut_all()
        elif what < 0.08:
            proxy.mute_all()
        elif what < 0.11:
            proxy.refusing = True
            proxy.cut_all()
        elif what < 0.2:
            self.offset += self.random.choice([-1, 1]) * self.random.random() * 7200

    async def _surely(self, action: Any) -> None:
        """Do it, also while the API server is being restarted."""
        deadline = time.monotonic() + 40
        while True:
            try:
                await action()
                return
            except (NotFound, AlreadyExists):
                return
            except KubeError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    # How it must be in the end --------------------------------------------------------

    async def _list(self, kind: type[Any]) -> dict[Key, Any]:
        select = self.selection
        listing = await self.direct.list(kind, select.namespace, labels=select.labels)
        return {obj.key: obj for obj in listing.items}

    async def _settled(self, manager: Manager, controller: ConnectedCluster) -> None:
        # Looking is what costs most, so only when there is nothing left to be done.
        queue = manager.workers[0].queue
        assert manager.acting
        assert len(queue) + queue.working + queue.delayed == 0, "something is left to do"
        try:
            sources, secrets = await self._list(ConfigMap), await self._list(Secret)
        except KubeError as error:
            raise AssertionError(f"cannot look: {error}") from error
        assert_same(manager.caches.of(ConfigMap, self.selection), sources)
        assert_same(manager.caches.of(Secret, self.selection), secrets)
        owners = {obj.metadata.uid: obj for obj in sources.values()}
        values: dict[str, list[str | None]] = {uid: [] for uid in owners}
        for secret in secrets.values():
            owner = secret.metadata.owner_references[0].uid
            if owner in owners:
                values[owner].append(secret.metadata.annotations.get(VALUE))
            elif controller.finalizer:
                # Nobody collects garbage here, but a finalizer leaves none that it knows of
                # (an API server may carry out a create long after the connection broke).
                assert secret.key not in controller.known, f"{secret.key} outlived its owner"
        for uid, source in owners.items():
            assert not source.metadata.deleting, f"{source.key} is stuck in its deletion"
            assert values[uid] == [source.data["value"]], f"{source.key}: {values[uid]}"


def assert_same(cache: Cache[Any], listed: dict[Key, Object]) -> None:
    """The cache shows exactly the API server's objects, in exactly these versions."""

    def essence(obj: Any) -> tuple[Any, ...]:
        return (
            obj.metadata.uid,
            obj.metadata.resource_version,
            obj.metadata.annotations,
            getattr(obj, "data", None),
        )

    shown = {obj.key: essence(obj) for obj in cache}
    expected = {key: essence(obj) for key, obj in listed.items()}
    lost, ghosts = expected.keys() - shown.keys(), shown.keys() - expected.keys()
    assert not lost, f"{cache.name} lost {[str(key) for key in sorted(lost)]}"
    assert not ghosts, f"{cache.name} has ghosts {[str(key) for key in sorted(ghosts)]}"
    assert shown == expected
