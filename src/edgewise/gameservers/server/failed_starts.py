"""The end of the log of a game that failed, kept where people find it after its pod is gone.

One ConfigMap for each fleet (or server alone), with the last ten. Best effort: a log that cannot
be read keeps nobody waiting, and a fleet whose servers all fail costs few reads and writes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from edgewise.api.games import Server
from edgewise.gameservers import names
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, BadRequest, KubeError
from edgewise.kube.kinds.core import ConfigMap, Pod
from edgewise.kube.objects import OwnerReference
from edgewise.runtime.api import Api
from edgewise.workloads.deadlines import stamp

LONGEST = 4096  # bytes of one log
MOST = 10  # logs of one fleet
# So many within so many seconds: those that follow say the same again.
AT_MOST, WITHIN = 10, 60.0
PATIENCE = 3.0
# Lines to ask for; what they have is cut to LONGEST, however long they are.
_LINES, _LARGEST = 200, 262_144

_log = logging.getLogger(__name__)


class FailedStarts:
    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._kept: dict[str, list[float]] = {}  # by uid of the owner: when

    async def keep(self, api: Api, server: Server, pod: Pod, now: float) -> None:
        owner = owner_of(server)
        if not self._wanted(owner.uid):
            return
        try:
            async with asyncio.timeout(PATIENCE):
                text = await self._read(pod)
            if text:
                await self._write(api, server, owner, key_of(server, now), text)
        except (KubeError, TimeoutError) as error:
            why = str(error) or "no answer"
            _log.info("the log of %s is not kept: %s", pod.metadata.name, why)

    def _wanted(self, owner: str) -> bool:
        now = self._monotonic()
        young = {
            uid: [each for each in times if now - each < WITHIN]
            for uid, times in self._kept.items()
        }
        self._kept = {uid: times for uid, times in young.items() if times}
        times = self._kept.setdefault(owner, [])
        if len(times) >= AT_MOST:
            return False
        times.append(now)
        return True

    async def _read(self, pod: Pod) -> str:
        container = failed_container(pod)
        path = f"{Pod.KIND.path(pod.metadata.namespace, pod.metadata.name)}/log"
        asked = {"container": container, "tailLines": str(_LINES), "limitBytes": str(_LARGEST)}
        try:
            said = await self._client.request(
                "GET", path, params=asked, timeout=PATIENCE, largest=2 * _LARGEST
            )
        except BadRequest:
            return ""  # it never started, so it has no log
        return said[-LONGEST:].decode(errors="ignore")

    async def _write(
        self, api: Api, server: Server, owner: OwnerReference, key: str, text: str
    ) -> None:
        made = ConfigMap.named(names.failed_starts_of(owner.name), server.metadata.namespace)
        made.metadata.labels = {names.FAILED_STARTS: owner.name}
        made.metadata.owner_references = [owner]
        made.data = {key: text}
        try:
            await api.create(made)
        except AlreadyExists:
            found = await api.get(ConfigMap, made.metadata.name, made.metadata.namespace)
            if found.metadata.labels.get(names.FAILED_STARTS) != owner.name:
                _log.warning("the ConfigMap %s is not ours: no log is kept in it", found.key)
                return
            await api.patch(found, {"data": change_of(found.data, key, text)})


def change_of(kept: Mapping[str, str], key: str, text: str) -> dict[str, str | None]:
    """One more, and those that are too many and oldest go: keys begin with the time."""
    over = sorted({*kept, key})[:-MOST]
    return {key: text, **dict.fromkeys(over)}


def key_of(server: Server, now: float) -> str:
    """Such as 2026-11-18T01.50.00Z_arena-7; no colon may be in it."""
    return f"{stamp(now).replace(':', '.')}_{server.metadata.name}"


def owner_of(server: Server) -> OwnerReference:
    fleet = next((each for each in server.metadata.owner_references if each.kind == "Fleet"), None)
    if fleet is None:
        return server.owner_reference(controller=False)
    return OwnerReference(
        api_version=fleet.api_version, kind=fleet.kind, name=fleet.name, uid=fleet.uid
    )


def failed_container(pod: Pod) -> str:
    """The first that ended with a mistake, else the first of the game."""
    for each in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = each.state.get("terminated")
        if ended and ended.get("exitCode"):
            return each.name
    return str(pod.spec["containers"][0].get("name", ""))
