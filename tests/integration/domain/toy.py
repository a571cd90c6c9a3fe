"""A domain of a few lines that has a part for every program, and is in none of their tuples.

A Toy is painted: its status says how big it is after that. Toys above ten are refused by a
policy, unlucky ones by a webhook.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import aiohttp
import msgspec
from aiohttp import web

from edgewise.api.crd import CrdSpec
from edgewise.domain import Built, Context, Domain, Option, Program, Rights
from edgewise.kube.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from edgewise.kube.kinds.rbac import PolicyRule
from edgewise.kube.objects import Key, Kind, Object, Record
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.controller import Controller
from edgewise.runtime.health_server import Handler
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.tasks import Task
from edgewise.runtime.watches import CacheView
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, Verdict
from edgewise.runtime.webhooks.serving import Webhook

GROUP = "toys.test.edgewise.dev"
FINALIZER = f"{GROUP}/paint-dries"


class ToySpec(Record):
    size: int = 0


class ToyStatus(Record):
    size: int = 0
    woken: bool = False


class Toy(Object):
    """Something to play with."""

    KIND: ClassVar = Kind(GROUP, "v1", "Toy", "toys")
    CRD: ClassVar = CrdSpec()

    spec: ToySpec = msgspec.field(default_factory=ToySpec)
    status: ToyStatus = msgspec.field(default_factory=ToyStatus)


class Puzzle(Object):
    """The kind of another domain."""

    KIND: ClassVar = Kind("puzzles.test.edgewise.dev", "v1", "Puzzle", "puzzles")
    CRD: ClassVar = CrdSpec()

    spec: ToySpec = msgspec.field(default_factory=ToySpec)
    status: ToyStatus = msgspec.field(default_factory=ToyStatus)


class ToyIndex:
    """Follows the cache, from before it has anything."""

    def __init__(self) -> None:
        self.known: set[Key] = set()

    def follow(self, toys: Cache[Toy]) -> None:
        assert len(toys) == 0
        toys.subscribe(self._changed)

    def _changed(self, old: Toy | None, new: Toy | None, _: bool) -> None:
        if old is not None:
            self.known.discard(old.key)
        if new is not None:
            self.known.add(new.key)


class ToyController(Controller[Toy]):
    finalizer = FINALIZER
    wakes_on_status = False

    def __init__(self, index: ToyIndex, factor: int) -> None:
        self._index = index
        self._factor = factor
        self._woken: set[Key] = set()

    def start(self, cache: CacheView) -> None:
        self._index.follow(cache[Toy])

    async def reconcile(self, toy: Toy) -> Requeue | None:
        assert toy.key in self._index.known
        woken = toy.key in self._woken
        if not woken:
            # By what is not a change of any object: only `wake` leads to the second pass.
            self._woken.add(toy.key)
            asyncio.get_running_loop().call_later(0.05, self.wake, toy.key)
        await self.api.write_status(toy, ToyStatus(size=toy.spec.size * self._factor, woken=woken))
        return None

    async def finalize(self, toy: Toy) -> Requeue | None:
        self._woken.discard(toy.key)
        return None


class PuzzleController(Controller[Puzzle]):
    wakes_on_status = False

    async def reconcile(self, puzzle: Puzzle) -> Requeue | None:
        await self.api.write_status(puzzle, ToyStatus(size=puzzle.spec.size))
        return None


def review(request: AdmissionRequest[Toy]) -> Verdict:
    if request.object is not None and request.object.spec.size == 7:
        return Denied("spec.size: 7 brings bad luck; choose 6 or 8")
    return Allowed()


FACTOR = Option(name="toy-factor", default=2, help="How much a toy grows by its paint.")


class Workshop:
    """What one operator built, for the tests to look at."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.http: aiohttp.ClientSession | None = None

    def build(self, context: Context) -> Built:
        index = ToyIndex()
        self.http = context.http

        async def count(_: web.Request) -> web.Response:
            return web.json_response({"toys": len(index.known)})

        return Built(
            controllers=(ToyController(index, int(context.options[FACTOR.name])),),
            webhooks=(Webhook(name=f"toys.{GROUP}", kind=Toy, review=review),),
            leader_tasks=(self._task("leader"),),
            replica_tasks=(self._task("replica"),),
            handlers=(Handler("GET", "/toys/count", count),),
        )

    def _task(self, name: str) -> Task:
        async def run() -> None:
            self.running.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.running.remove(name)

        return Task(name, run)

    @property
    def domain(self) -> Domain:
        return Domain(
            name="toys",
            kinds=(Toy,),
            build=self.build,
            finalizers={Toy: FINALIZER},
            options=(FACTOR,),
            cluster_objects=(POLICY, BINDING),
            programs=(Program(name="toy-agent", command=("toy", "agent"), chart="agent.yaml"),),
            rights=(
                Rights(
                    program="operator",
                    cluster=(PolicyRule(api_groups=[GROUP], resources=["toys"], verbs=["watch"]),),
                ),
            ),
        )


def build_puzzles(_: Context) -> Built:
    return Built(controllers=(PuzzleController(),))


PUZZLES = Domain(name="puzzles", kinds=(Puzzle,), build=build_puzzles)

_RULE: dict[str, Any] = {
    "apiGroups": [GROUP],
    "apiVersions": ["*"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["toys"],
}
POLICY = ValidatingAdmissionPolicy.named(
    "toys.test.edgewise.dev",
    spec={
        "matchConstraints": {"resourceRules": [_RULE]},
        "validations": [
            {"expression": "object.spec.size <= 10", "message": "no child lifts more than ten"}
        ],
    },
)
BINDING = ValidatingAdmissionPolicyBinding.named(
    "toys.test.edgewise.dev",
    spec={"policyName": "toys.test.edgewise.dev", "validationActions": ["Deny"]},
)
