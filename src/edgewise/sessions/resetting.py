"""Makes pods clean before somebody else gets them, without holding up anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import aiohttp

from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.objects import Key
from edgewise.sessions.orders import ResetPod

# Asks process 1 of the container to end; the kubelet starts it anew.
TERMINATE = ["/bin/sh", "-c", "kill -TERM 1"]
KEPT_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Cleaner(Protocol):
    async def clean(self, namespace: str, order: ResetPod) -> bool | None:
        """Whether the pod is clean; None: that will be seen at the pod."""


class PodCleaner:
    """Asks the pod over HTTP, or ends its container."""

    def __init__(self, client: Client, http: aiohttp.ClientSession) -> None:
        self._client = client
        self._http = http

    async def clean(self, namespace: str, order: ResetPod) -> bool | None:
        if order.reset.restart_container:
            return await self._restart(namespace, order)
        return await self._ask(order)

    async def _ask(self, order: ResetPod) -> bool:
        host = f"[{order.pod.ip}]" if ":" in order.pod.ip else order.pod.ip
        url = f"http://{host}:{order.port}{order.reset.http_path}"
        timeout = aiohttp.ClientTimeout(total=order.reset.timeout_seconds)
        try:
            # The pod belongs to somebody else: it answers for itself, and sends us nowhere.
            async with self._http.post(url, timeout=timeout, allow_redirects=False) as answer:
                if not 200 <= answer.status < 300:
                    _log.warning("the reset of pod %s answered %d", order.pod.name, answer.status)
                return 200 <= answer.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.warning("pod %s could not be asked to reset: %s", order.pod.name, error)
            return False

    async def _restart(self, namespace: str, order: ResetPod) -> bool | None:
        try:
            async with asyncio.timeout(order.reset.timeout_seconds):
                await self._client.exec(
                    order.pod.name,
                    namespace,
                    order.reset.command or TERMINATE,
                    container=order.reset.restart_container or "",
                )
        except (KubeError, TimeoutError) as error:
            # The container may have ended under the command: its restart count tells.
            _log.info("the command that ends pod %s was cut off: %s", order.pod.name, error)
        return None


class _Attempt:
    def __init__(self, name: str, old_at: float) -> None:
        self.name = name
        self.old_at = old_at
        self.result: bool | None = None


class Resets:
    """Resets that run, and how those that ended went. One for each attempt to clean a pod.

    What is known of an attempt holds for that one alone: a pod is made dirty again by whoever
    has it next, be that in another session.
    """

    def __init__(self, cleaner: Cleaner, wake: Callable[[Key], None]) -> None:
        self._cleaner = cleaner
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()
        self._latest: dict[str, _Attempt] = {}  # of each pod, by its uid

    def start(self, key: Key, order: ResetPod) -> None:
        """`key` is woken when the reset has ended."""
        uid, now = order.pod.uid, asyncio.get_running_loop().time()
        latest = self._latest.get(uid)
        if latest is not None and latest.name == order.attempt:
            return
        self._drop_old(now)
        attempt = _Attempt(order.attempt, now + order.reset.timeout_seconds + KEPT_SECONDS)
        self._latest[uid] = attempt
        task = asyncio.create_task(self._run(key, order, attempt), name=f"reset {order.pod.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def result(self, pod_uid: str, attempt: str) -> bool | None:
        latest = self._latest.get(pod_uid)
        return latest.result if latest is not None and latest.name == attempt else None

    def forget(self, pod_uid: str) -> None:
        """Whoever asked has taken note of the result."""
        self._latest.pop(pod_uid, None)

    async def run(self) -> None:
        """Until cancelled; what is being cleaned then is given up."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, key: Key, order: ResetPod, attempt: _Attempt) -> None:
        attempt.result = await self._cleaner.clean(key.namespace, order)
        if attempt.result is not None:
            self._wake(key)

    def _drop_old(self, now: float) -> None:
        """Nobody asks about an attempt whose time has been over for so long."""
        for uid in [uid for uid, each in self._latest.items() if each.old_at < now]:
            del self._latest[uid]
