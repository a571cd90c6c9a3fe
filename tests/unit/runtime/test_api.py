"""The API as a reconcile uses it, as far as no server is needed to tell."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from edgewise.kube.client import Client, Listing
from edgewise.kube.config import Access
from edgewise.kube.errors import AlreadyExists, Unreachable
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.objects import Key, ObjectMeta
from edgewise.kube.unreadable import Unreadable, UnreadableObject
from edgewise.runtime.api import Api
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.reconciling import CURRENT, Reconciling


async def test_deleting_without_a_name_does_not_delete_everything() -> None:
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        api = Api(client, SharedCaches(client))
        with pytest.raises(ValueError, match="without its name"):
            await api.delete(ConfigMap.named("", "shop"))


async def test_a_write_without_an_answer_is_remembered_for_a_while() -> None:
    now = 1000.0
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        api = Api(client, SharedCaches(client), monotonic=lambda: now)
        with pytest.raises(Unreachable):
            await api.get(ConfigMap, "a", "shop")
        assert api.quiet_for > 1e9
        with pytest.raises(Unreachable):
            await api.delete(ConfigMap.named("a", "shop"), unchanged=True)
        now += 7
        assert api.quiet_for == 7


class LateServer:
    """The first create is carried out late, and nothing can be read after the second."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.asked: list[str] = []

    async def create(self, config: ConfigMap) -> ConfigMap:
        self.asked.append(config.metadata.name)
        if len(self.asked) == 1:
            raise Unreachable("no answer")
        if config.metadata.name in (*self.made, self.asked[0]):
            self.made = sorted({*self.made, config.metadata.name})
            raise AlreadyExists(409)
        self.made.append(config.metadata.name)
        return config

    async def get(self, *_: Any) -> ConfigMap:
        if len(self.asked) < 3:
            raise Unreachable("no answer")
        return ConfigMap.named(self.made[0], "shop")


async def test_a_made_name_is_kept_when_what_has_it_cannot_be_read() -> None:
    server: Any = LateServer()
    api = Api(server, SharedCaches(server))
    reconciling = Reconciling("test", Key("shop", "source"))
    token = CURRENT.set(reconciling)
    try:
        wanted = ConfigMap(metadata=ObjectMeta(generate_name="copy-", namespace="shop"))
        for _ in range(2):
            with pytest.raises(Unreachable):
                await api.create(wanted)
        made = await api.create(wanted)
    finally:
        CURRENT.reset(token)
    assert [made.metadata.name] == server.made
    assert len(set(server.asked)) == 1


class InPages:
    """Has three objects, a page each; the last one cannot be read."""

    def __init__(self) -> None:
        self.sent = 0

    async def pages(self, *_: Any, limit: int, **__: Any) -> AsyncGenerator[Any, None]:
        assert limit == 1
        for name in ("a", "b"):
            self.sent += 1
            yield Listing([ConfigMap.named(name, "shop")], "1")
        meta = ObjectMeta(name="c", namespace="shop", uid="u", resource_version="1")
        self.sent += 1
        yield Listing([], "1", unreadable=[Unreadable(meta, "ConfigMap shop/c does not fit")])


async def test_a_live_list_goes_no_further_than_it_is_read() -> None:
    server: Any = InPages()
    async with contextlib.aclosing(
        Api(server, SharedCaches(server)).pages(ConfigMap, "shop", limit=1)
    ) as pages:
        assert [each.metadata.name for each in await anext(pages)] == ["a"]
    assert server.sent == 1


async def test_nobody_takes_what_cannot_be_read_in_a_live_list_for_gone() -> None:
    server: Any = InPages()
    found: list[str] = []

    async def read() -> None:
        async for page in Api(server, SharedCaches(server)).pages(ConfigMap, "shop", limit=1):
            found.extend(each.metadata.name for each in page)

    with pytest.raises(UnreadableObject, match="shop/c does not fit"):
        await read()
    assert found == ["a", "b"]
