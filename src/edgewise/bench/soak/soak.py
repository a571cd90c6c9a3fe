"""Lets a plan happen to a cluster with a running platform, then looks whether all is well."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from edgewise.api.sessions import Session
from edgewise.bench.evaluation.workloads.http import PORT, pod_spec
from edgewise.bench.soak.plan import Act, Do, Step
from edgewise.bench.soak.weighing import (
    IDLE_SECONDS,
    Weight,
    growth,
    weigh,
    weight_at_rest,
)
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, KubeError, NotFound
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.local import faults
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.platform import Platform, Program
from edgewise.runtime.garbage import COLLECT

NAMESPACE = "edgewise-soak"
TEMPLATES = ("shared", "alone")
SETTLE_SECONDS = 240.0
AGAIN_SECONDS = 0.5
ASK_SECONDS = 5.0
TELL_SECONDS = 60.0
COLLECT_SECONDS = 2.0  # in which a program has collected its garbage

T = TypeVar("T")
Tell = Callable[[str], None]
# The sentences of the checker: what is wrong in a namespace at a moment.
Check = Callable[[Client, str, float], Awaitable[list[str]]]


class SoakError(ReadableError):
    """The soak itself cannot go on."""


class Stage(msgspec.Struct, frozen=True):
    cluster: LocalCluster
    client: Client
    platform: Platform
    gateway: Program
    image: str


class Soak:
    def __init__(
        self,
        stage: Stage,
        acts: Sequence[Act],
        check: Check,
        tell: Tell,
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`idle_seconds` pass before each weighing, so that kept connections are closed by then."""
        self._stage = stage
        self._acts = acts
        self._check = check
        self._tell = tell
        self._idle_seconds = idle_seconds
        self._done: Counter[str] = Counter()
        self._violations: list[str] = []
        self._weights: list[tuple[float, Weight]] = []
        self._began = time.monotonic()

    def figures(self) -> dict[str, Any]:
        """What is known so far; all of it when `run` is over."""
        weights = [
            {"after_s": round(at, 1), **msgspec.to_builtins(each)} for at, each in self._weights
        ]
        whole = len(self._weights) == len(self._acts) + 1
        found = {
            "seconds": round(time.monotonic() - self._began, 1),
            "whole": whole,
            "steps": dict(sorted(self._done.items())),
            "violations": self._violations,
            "weights": weights,
        }
        if whole:
            found["growth"] = growth(self._weights[1][1], self._weights[-1][1])
        return found

    async def run(self) -> None:
        await self._prepare()
        await self._rest("nobody has come")
        for number, act in enumerate(self._acts, start=1):
            self._tell(f"act {number}: {act.seconds / 60:.1f} min, {len(act.steps)} steps")
            await self._play(act)
            await self._settled("after the last step")
            await self._answers()
            await self._everybody_leaves()
            await self._rest("everybody has left")

    # What happens -------------------------------------------------------------------

    async def _play(self, act: Act) -> None:
        """The steps of one session one after the other, and so all trouble; else all at once."""
        lanes: dict[str, list[Step]] = defaultdict(list)
        for step in act.steps:
            lanes[step.session].append(step)
        began = time.monotonic()

        async def follow(steps: list[Step]) -> None:
            for step in steps:
                await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
                await self._insist(step.do, partial(self._happens, step))
                self._done[step.do] += 1

        telling = asyncio.create_task(self._progress(began, act.seconds))
        try:
            async with asyncio.TaskGroup() as tasks:
                for steps in lanes.values():
                    tasks.create_task(follow(steps))
        finally:
            telling.cancel()
        await asyncio.sleep(max(0.0, began + act.seconds - time.monotonic()))

    async def _progress(self, began: float, seconds: float) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            minutes = (time.monotonic() - began) / 60
            self._tell(
                f"minute {minutes:.0f} of {seconds / 60:.0f}: {sum(self._done.values())} steps"
            )

    async def _insist(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """While the API server is down nobody is heard, and a session that is being deleted
        takes nobody: who wants something asks once more."""
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            try:
                return await call()
            except (KubeError, LocalError, OSError, aiohttp.ClientError, TimeoutError) as error:
                if time.monotonic() > end:
                    raise SoakError(f"{what} was not possible any more: {error}") from error
            await asyncio.sleep(AGAIN_SECONDS)

    async def _happens(self, step: Step) -> None:
        platform, cluster = self._stage.platform, self._stage.cluster
        match step.do:
            case Do.JOIN:
                await self._join(step)
            case Do.RETURN | Do.LOSE:
                await self._set(step, {"connected": step.do is Do.RETURN})
            case Do.LEAVE:
                await self._set(step, None)
            case Do.DELETE_SESSION:
                with contextlib.suppress(NotFound):
                    await self._stage.client.delete(Session, step.session, NAMESPACE)
            case Do.KILL_POD:
                await self._kill_pod(step.chance)
            case Do.KILL_NODE:
                nodes = cluster.spec.node_names
                node = nodes[int(step.chance * len(nodes))]
                await asyncio.to_thread(faults.kill, cluster, node)
            case Do.RESTART_API_SERVER:
                await asyncio.to_thread(faults.kill, cluster, "kube-apiserver")
            case Do.RESTART_OPERATOR:
                await _restart(platform.operator)
            case Do.RESTART_GATEWAY:
                await _restart(self._stage.gateway)

    async def _join(self, step: Step) -> None:
        try:
            await self._set(step, {"connected": True})
        except NotFound:
            template = TEMPLATES[int(step.session[1:]) % len(TEMPLATES)]
            spec = {
                "templateRef": {"name": template},
                "clients": {step.client: {"connected": True}},
            }
            await self._create(step.session, spec)

    async def _create(self, session: str, spec: dict[str, Any]) -> None:
        await self._stage.client.apply(_manifest("Session", session, spec))

    async def _set(self, step: Step, value: dict[str, Any] | None) -> None:
        try:
            await self._stage.client.patch(
                Session,
                step.session,
                NAMESPACE,
                body={"spec": {"clients": {step.client: value}}},
            )
        except NotFound:
            if step.do is Do.JOIN:
                raise

    async def _kill_pod(self, chance: float) -> None:
        pods = sorted(
            pod.metadata.name for pod in (await self._stage.client.list(Pod, NAMESPACE)).items
        )
        if pods:
            pod = pods[int(chance * len(pods))]
            with contextlib.suppress(NotFound):
                await self._stage.client.delete(Pod, pod, NAMESPACE, grace_seconds=0)

    # What must hold -----------------------------------------------------------------

    async def _settled(self, when: str) -> None:
        """Waits until all is well; what is not after all that time is a violation."""
        end = time.monotonic() + SETTLE_SECONDS
        while wrong := await self._wrong():
            if time.monotonic() > end:
                self._violations += [f"{when}: {sentence}" for sentence in wrong]
                self._tell(f"{when}: {len(wrong)} violations, such as: {wrong[0]}")
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _wrong(self) -> list[str]:
        try:
            # A deadline that is due this very moment has not been missed yet.
            return await self._check(self._stage.client, NAMESPACE, time.time() - 2.0)
        except KubeError as error:
            return [f"the API server does not answer: {error}"]

    async def _answers(self) -> None:
        """Every client that is said to be ready reaches a pod of its own by its address."""
        timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            for session in await self._insist("to ask for sessions", self._sessions):
                for client, record in session.status.clients.items():
                    if not record.ready:
                        continue
                    url = record.endpoints["server"]["http"]
                    # Which asks for the pod's name, and holds nothing.
                    said = await _answer(http, f"{url}?client={client}&do=leave")
                    if said not in record.pods.values():
                        name = f"{client} of {session.metadata.name}"
                        self._violations.append(f"{name} reaches {said}, not {record.pods}")

    async def _everybody_leaves(self) -> None:
        await self._insist("to end the sessions", self._delete_sessions)
        end = time.monotonic() + SETTLE_SECONDS
        while left := await self._insist("to ask for sessions", self._sessions):
            if time.monotonic() > end:
                names = [each.metadata.name for each in left]
                self._violations.append(f"sessions that do not go: {names}")
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _sessions(self) -> Sequence[Session]:
        return (await self._stage.client.list(Session, NAMESPACE)).items

    async def _delete_sessions(self) -> None:
        for session in await self._sessions():
            with contextlib.suppress(NotFound):
                await self._stage.client.delete(Session, session.metadata.name, NAMESPACE)

    async def _rest(self, when: str) -> None:
        """With nobody there; then what the programs hold is what they always hold."""
        await self._settled(when)
        weight = await self._weight_at_rest()
        at = time.monotonic() - self._began
        self._weights.append((at, weight))
        held = ", ".join(f"{name} {each.memory_mb} MB" for name, each in weight.programs.items())
        self._tell(f"{when}: {held}; {weight.routes} routes, {weight.ports} ports")

    async def _weight_at_rest(self) -> Weight:
        return await weight_at_rest(
            lambda: self._insist("to weigh the programs", self._weight),
            self._collect,
            settle_seconds=SETTLE_SECONDS,
            idle_seconds=self._idle_seconds,
        )

    async def _collect(self) -> None:
        for program in (self._stage.platform.operator, self._stage.gateway):
            with contextlib.suppress(ProcessLookupError):  # weighing it will say that it ended
                os.kill(program.pid, COLLECT)
        await asyncio.sleep(COLLECT_SECONDS)

    async def _weight(self) -> Weight:
        return await weigh(self._stage.client, self._pids(), self._stage.platform.gateway_url)

    def _pids(self) -> dict[str, int]:
        """Envoy apart: it outlives its agent, and the next one goes on with it."""
        running = self._stage.cluster.running()
        found = {
            Path(process.argv[0]).name: process.pid
            for process in running
            if Path(process.argv[0]).name in ("envoy", "kube-apiserver")
        }
        operator, gateway = self._stage.platform.operator.pid, self._stage.gateway.pid
        return {"operator": operator, "gateway": gateway} | found

    # What there is before -----------------------------------------------------------

    async def _prepare(self) -> None:
        # The gateway that is weighed in the end goes on with the Envoy of one that was killed, and
        # holds a handle of it that the one which started it need not have. So does the first.
        await _restart(self._stage.gateway)
        with contextlib.suppress(AlreadyExists):
            await self._stage.client.create(Namespace.named(NAMESPACE))
        common = {"timeoutSeconds": 5, "reutilizeTimeoutSeconds": 5, "nodeLossSeconds": 10}
        shared = {"maxClients": 2, "warmPods": 1}
        for name, pods, spec in (
            (TEMPLATES[0], shared, common | {"reuse": "Template"}),
            (TEMPLATES[1], {"maxClients": 1}, common | {"reuse": "Session"}),
        ):
            part = _pod_template(self._stage.image) | pods
            template = _manifest("SessionTemplate", name, spec | {"podTemplates": [part]})
            await self._stage.client.apply(template)


async def _answer(http: aiohttp.ClientSession, url: str) -> str:
    try:
        async with http.get(url, allow_redirects=False) as answer:
            body = await answer.content.read(256)
            said = body.decode(errors="replace")
            return said if answer.status == 200 else f"{answer.status} {said}"
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        return f"nobody ({type(error).__name__})"


async def _restart(program: Program) -> None:
    """As a crash does, and whoever watches over it."""
    await program.kill()
    await program.start(within=SETTLE_SECONDS)


def _pod_template(image: str) -> dict[str, Any]:
    return {
        "name": "server",
        "ports": [
            {"name": "http", "port": PORT},
            {"name": "game", "port": 7777, "protocol": "UDP"},
        ],
        "template": {"spec": pod_spec(image)},
    }


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "sessions.edgewise.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
