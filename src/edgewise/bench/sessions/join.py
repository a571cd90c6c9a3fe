"""How long a client waits for its server, beside the least that Kubernetes takes for a pod.

Every round measures each way once, one after the other, so that whatever the machine does
meanwhile hits all of them alike.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.bench.sessions.objects import NAMESPACE, PORT, pod_spec, session, template
from edgewise.bench.summary import ratio, summary
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.awaiting import WaitedInVain, Waiting, watching

Tell = Callable[[str], None]

PATCHES_PER_ROUND = 5
RETRY_SECONDS = 0.002
# A pod's network and control groups are taken down after the pod itself is gone; the next
# measurement must not run beside that.
QUIET_SECONDS = 0.3
# The kubelet looks at some things once a second. What always began at the same moment of that
# second would be measured too fast or too slow, every time. So the rounds begin at moments that
# are spread over it, and all ways of one round at the same one: with moments of their own,
# their medians would differ by more than what is measured.
LOOP_SECONDS = 1.0


def moments(count: int) -> list[float]:
    """Spread evenly over the kubelet's second, in any order."""
    found = [(number + random.random()) / count * LOOP_SECONDS for number in range(count)]
    random.shuffle(found)
    return found


class JoinBench:
    """One run on one cluster on which the operator and the gateway are running."""

    def __init__(self, client: Client, image: str, tell: Tell) -> None:
        self._client = client
        self._image = image
        self._spec = pod_spec(image)
        self._tell = tell
        self._times: dict[str, list[float]] = defaultdict(list)
        self._number = 0

    async def run(self, rounds: int) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession(
                # A kept connection would hide what the first request of a client meets.
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=10),
            ) as self._http,
            watching(self._client, Pod, Session, SessionTemplate) as waits,
        ):
            self._pods: Waiting[Pod] = waits[0]
            self._sessions: Waiting[Session] = waits[1]
            self._templates: Waiting[SessionTemplate] = waits[2]
            try:
                await self._prepare()
                for number, moment in enumerate(moments(rounds + 1)):
                    await self._round(moment)
                    if number == 0:
                        self._times.clear()  # the first round also warms up the machine
                    self._tell(f"round {number} of {rounds}")
            finally:
                await self._clean_up()
        return self._figures()

    async def _prepare(self) -> None:
        namespace = Namespace.named(NAMESPACE)
        try:
            await self._client.create(namespace)
        except AlreadyExists:
            await self._clean_up()
        for each in (
            template("cold", self._image),
            template("warm", self._image, warm=1),
            template("reuse", self._image, reuse="Session", reutilizeTimeoutSeconds=600),
        ):
            await self._client.apply(each)
        for name in ("cold", "warm", "reuse"):
            await self._client.apply(session(name, name))

    async def _round(self, moment: float) -> None:
        self._number += 1
        client = f"c{self._number}"
        for _ in range(PATCHES_PER_ROUND):
            await self._timed("patch", self._patch)
        await self._wait_for(moment)
        bare = await self._timed("bare", self._bare)
        await self._client.delete(Pod, bare, NAMESPACE, grace_seconds=0)
        await self._wait_for(moment)
        pod = await self._timed("cold", lambda: self._join("cold", client))
        await self._wait_for(moment)
        await self._timed("recovery", lambda: self._recover("cold", client, pod))
        await self._leave("cold", client)
        await self._until_warm()
        await self._timed("warm", lambda: self._join("warm", client))
        await self._leave("warm", client)
        await self._until_warm()
        # Whoever comes first leaves a pod behind; the second one gets it.
        first = await self._join("reuse", f"{client}-before")
        await self._leave("reuse", f"{client}-before")
        second = await self._timed("reuse", lambda: self._join("reuse", client))
        if second != first:
            raise WaitedInVain(f"the pod {first} was not reused: {second} answered")
        await self._leave("reuse", client)

    async def _wait_for(self, moment: float) -> None:
        await asyncio.sleep(QUIET_SECONDS)
        await asyncio.sleep((moment - time.monotonic()) % LOOP_SECONDS)

    async def _timed(self, what: str, do: Callable[[], Awaitable[str]]) -> str:
        began = time.perf_counter()
        result = await do()
        self._times[what].append(time.perf_counter() - began)
        return result

    async def _patch(self) -> str:
        """One round trip, with an object like those that a join writes."""
        stamp = {"metadata": {"annotations": {"bench": str(time.monotonic_ns())}}}
        await self._client.patch(Session, "cold", NAMESPACE, body=stamp)
        return ""

    async def _bare(self) -> str:
        name = f"bare-{self._number}"
        pod = Pod.named(name, NAMESPACE, spec=self._spec)
        await self._client.create(pod)
        key = Key(NAMESPACE, name)
        seen = await self._pods.until(key, lambda p: p is not None and p.ready, f"{key} ready")
        assert seen is not None  # noqa: S101 - said by the condition
        return await self._first_answer(f"http://{seen.status.pod_ip}:{PORT}/")

    async def _join(self, name: str, client: str) -> str:
        await self._client.patch(
            Session, name, NAMESPACE, body={"spec": {"clients": {client: {"connected": True}}}}
        )
        return await self._first_answer(await self._endpoint(name, client))

    async def _endpoint(self, name: str, client: str) -> str:
        def ready(seen: Session | None) -> bool:
            has = seen.status.clients.get(client) if seen is not None else None
            return has is not None and has.ready

        what = f"client {client} of session {name} ready"
        seen = await self._sessions.until(Key(NAMESPACE, name), ready, what)
        assert seen is not None  # noqa: S101 - said by the condition
        return seen.status.clients[client].endpoints["server"]["http"]

    async def _recover(self, name: str, client: str, lost: str) -> str:
        url = await self._endpoint(name, client)
        await self._client.delete(Pod, lost, NAMESPACE, grace_seconds=0)
        return await self._first_answer(url, not_from=lost)

    async def _first_answer(self, url: str, *, not_from: str = "", within: float = 60.0) -> str:
        """Who answers first; every failure before that counts as waiting."""
        deadline = time.perf_counter() + within
        while True:
            try:
                async with self._http.get(url) as answer:
                    who = await answer.text()
                    if answer.status == 200 and who != not_from:
                        return who
            except (OSError, aiohttp.ClientError):
                pass
            if time.perf_counter() > deadline:
                raise WaitedInVain(f"{url} did not answer within {within:.0f} s")
            await asyncio.sleep(RETRY_SECONDS)

    async def _leave(self, name: str, client: str) -> None:
        await self._client.patch(
            Session, name, NAMESPACE, body={"spec": {"clients": {client: None}}}
        )
        await self._sessions.until(
            Key(NAMESPACE, name),
            lambda s: s is not None and client not in s.status.clients,
            f"client {client} gone from session {name}",
        )

    async def _until_warm(self) -> None:
        await self._templates.until(
            Key(NAMESPACE, "warm"), lambda t: t is not None and t.status.warm == 1, "a warm pod"
        )
        await asyncio.sleep(QUIET_SECONDS)

    async def _clean_up(self) -> None:
        for kind in (Session, SessionTemplate):
            for each in (await self._client.list(kind, NAMESPACE)).items:
                try:
                    await self._client.delete(kind, each.metadata.name, NAMESPACE)
                except NotFound:
                    continue
                await self._waits_of(kind).until(each.key, lambda s: s is None, f"{each.key} gone")
        for pod in (await self._client.list(Pod, NAMESPACE)).items:
            await self._client.delete(Pod, pod.metadata.name, NAMESPACE, grace_seconds=0)

    def _waits_of(self, kind: type[Any]) -> Waiting[Any]:
        return self._sessions if kind is Session else self._templates

    def _figures(self) -> dict[str, Any]:
        patch_ms = summary([seconds * 1000 for seconds in self._times["patch"]], digits=2)
        ways = {
            f"{way}_s": summary(self._times[way])
            for way in ("bare", "cold", "warm", "reuse", "recovery")
        }
        bare = ways["bare_s"]
        patch_s = patch_ms["p50"] / 1000
        return {
            "patch_ms": patch_ms,
            **ways,
            "ratios": {
                "cold_p50": ratio(ways["cold_s"]["p50"], bare["p50"]),
                "cold_p95": ratio(ways["cold_s"]["p95"], bare["p95"]),
                "recovery_p50": ratio(ways["recovery_s"]["p50"], bare["p50"]),
                "warm_p50": ratio(ways["warm_s"]["p50"], patch_s),
                "reuse_p50": ratio(ways["reuse_s"]["p50"], patch_s),
            },
        }
