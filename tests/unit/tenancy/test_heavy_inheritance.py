"""What a tenant has its children inherit does not fill the operator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from edgewise.api.tenancy import Workspace
from edgewise.kube.client import Client, Listing
from edgewise.kube.errors import AlreadyExists, TooLarge
from edgewise.kube.kinds.core import ConfigMap, Namespace
from edgewise.kube.watching import Change, ChangeType
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.tenancy import following
from edgewise.tenancy.apply import Writer
from edgewise.tenancy.following import Follower
from edgewise.tenancy.inheriting import MOST_COPIED, MOST_INHERITED
from edgewise.tenancy.orders import Inherit
from edgewise.testing.eventually import eventually
from tests.unit.tenancy.test_tree_plan import child, core, source, tree, whole

EACH = 1 << 20
MANY = 3 * (MOST_INHERITED // EACH)


class Parent:
    """A namespace with ConfigMaps of a megabyte each, and one without; counts what is read."""

    def __init__(self, *, listed: int = 0, told: int = 0) -> None:
        self._listed, self._told = listed, told
        self.read = 0

    def _made(self, kind: Any, namespace: str, number: int) -> Any:
        made = kind.named(f"c{number}", namespace)
        made.metadata.uid = f"u{number}"
        made.metadata.resource_version = str(number + 2)
        self.read += EACH
        return made

    async def pages(
        self, kind: Any, namespace: str | None = None, **_: Any
    ) -> AsyncGenerator[Listing[Any], None]:
        there = self._listed if namespace == "acme" and kind.KIND == ConfigMap.KIND else 0
        for number in range(there):
            yield Listing([self._made(kind, "acme", number)], "100000", "more", EACH)
        yield Listing([], "100000")

    async def watch(
        self, kind: Any, namespace: str | None = None, **_: Any
    ) -> AsyncGenerator[Change[Any], None]:
        there = self._told if namespace == "acme" and kind.KIND == ConfigMap.KIND else 0
        for number in range(there):
            change = Change(ChangeType.ADDED, self._made(kind, "acme", 100_000 + number))
            change.size = EACH
            yield change
            await asyncio.sleep(0)
        await asyncio.Event().wait()


@pytest.mark.parametrize("parent", [{"listed": MANY}, {"told": MANY}], ids=["listed", "told"])
async def test_more_than_the_operator_holds_is_not_followed_and_is_said(
    parent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "FIRST_LIST", 0.2)
    world = Parent(**parent)
    client: Any = world
    caches = SharedCaches(client)
    follower = Follower(caches)
    space = Workspace(inherit=["ConfigMap"], sync="Continuous")
    seen = tree(whole(core()), whole(child(source(workspace=space))))
    running = asyncio.create_task(caches.run())
    api: Any = None  # nothing is written
    wake: Any = int
    try:
        follower._keep("acme", set(following._watched(seen.branches["team-x"])), wake)

        async def said() -> None:
            found = await follower.follow(seen, api, lambda: None)
            assert not found.complete
            assert "of more than 64 MiB" in found.uncopied["team-x"].why

        await eventually(
            lambda: any(isinstance(each, TooLarge) for each in caches.errors()), within=10
        )
        await eventually(said, within=10)
        assert world.read <= MOST_INHERITED + 2 * EACH
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_what_is_copied_once_is_bounded_too() -> None:
    world = Parent(listed=MANY)

    class Api(Client):
        def __init__(self) -> None:
            pass

        def pages(self, *args: Any, **kinds: Any) -> Any:
            return world.pages(*args, **kinds)

    api: Any = Api()
    order = Inherit(Namespace.named("team-x"), "acme", ("ConfigMap",), "ConfigMap")
    outcome = await Writer(api).carry_out([order])
    assert "more than 64 MiB" in outcome.stuck["team-x"]
    assert world.read <= MOST_INHERITED + 2 * EACH


class Slow:
    """Answers so many calls, and no more: then the time of a pass is over."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.there: dict[str, Any] = {}
        self.answers = 0
        self.marked = False

    def _answer(self) -> None:
        self.answers -= 1
        if self.answers < 0:
            raise TimeoutError

    async def list(self, kind: Any, namespace: str, **_: Any) -> Listing[Any]:
        self._answer()
        if namespace != "acme":
            return Listing([*self.there.values()], "9")
        items = [kind.named(f"c{number}", namespace) for number in range(self.number)]
        for each in items:
            each.metadata.uid = f"uid of {each.metadata.name}"
        return Listing(items, "9")

    async def create(self, made: Any) -> None:
        self._answer()
        if made.metadata.name in self.there:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.there[made.metadata.name] = made

    async def get(self, kind: Any, name: str, namespace: str) -> Any:
        self._answer()
        return self.there[name]

    async def patch(self, obj: Any, body: Any) -> None:
        self._answer()
        self.marked = True


ONCE = Inherit(Namespace.named("team-x"), "acme", ("ConfigMap",), "ConfigMap")


async def test_what_takes_longer_than_a_pass_is_copied_in_several() -> None:
    api: Any = Slow(100)
    for _ in range(3):
        api.answers = 60
        # As the runtime cuts off a pass that takes too long.
        with contextlib.suppress(TimeoutError, ExceptionGroup):
            await Writer(api).carry_out([ONCE])
    assert (len(api.there), api.marked) == (100, True)


async def test_more_objects_than_can_be_copied_hold_up_their_namespace_alone() -> None:
    api: Any = Slow(MOST_COPIED + 1)
    api.answers = 10
    outcome = await Writer(api).carry_out([ONCE])
    assert f"more than {MOST_COPIED} objects of kind ConfigMap" in outcome.stuck["team-x"]
    assert not api.there
