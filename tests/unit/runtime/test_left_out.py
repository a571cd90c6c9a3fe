"""What does not fit its type is left out of its cache, and is not taken for deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.errors import Undecodable
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.kube.objects import Key, Object, ObjectMeta
from edgewise.kube.unreadable import Unreadable
from edgewise.runtime.caching.cache import MOST_LEFT_OUT, Cache
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped
from edgewise.testing.eventually import eventually

ODD = Key("ns", "odd")


def config(name: str, revision: int, uid: str = "") -> ConfigMap:
    made = ConfigMap.named(name, "ns")
    made.metadata.uid, made.metadata.resource_version = uid or name, str(revision)
    return made


def unreadable(revision: int, name: str = "odd", uid: str = "", why: str = "") -> Unreadable:
    metadata = ObjectMeta(
        name=name, namespace="ns", uid=uid or name, resource_version=str(revision)
    )
    return Unreadable(metadata, why or f"ConfigMap ns/{name} does not fit its type")


def changes(cache: Cache[ConfigMap]) -> list[tuple[bool, bool]]:
    """Whether there was an object before each change, and after it."""
    seen: list[tuple[bool, bool]] = []
    cache.subscribe(lambda old, new, _: seen.append((old is not None, new is not None)))
    return seen


def test_the_last_version_that_could_be_read_stays() -> None:
    cache = Cache(ConfigMap)
    cache.replace([config("odd", 1), config("good", 2)], "5")
    seen = changes(cache)
    del seen[:]
    cache.leave_out(unreadable(6))
    cache.replace([config("good", 2)], "7", unreadable=[unreadable(6)])
    assert (cache.get(ODD) or config("none", 0)).metadata.resource_version == "1"
    assert set(cache.left_out) == {ODD}
    assert (seen, cache.revision) == ([], 7)
    cache.apply(config("odd", 8))
    assert (seen, dict(cache.left_out)) == ([(True, True)], {})


def test_one_that_never_could_be_read_comes_in_when_it_is_mended() -> None:
    cache = Cache(ConfigMap)
    cache.replace([config("good", 2)], "5", unreadable=[unreadable(4)])
    assert cache.get(ODD) is None
    assert set(cache.left_out) == {ODD}
    cache.apply(config("odd", 6))
    assert cache.get(ODD) is not None
    assert not cache.left_out


@pytest.mark.parametrize("known", [True, False])
def test_its_deletion_is_seen(known: bool) -> None:
    cache = Cache(ConfigMap)
    cache.replace([config("odd", 1)] if known else [], "5")
    cache.leave_out(unreadable(6))
    seen = changes(cache)
    del seen[:]
    cache.apply(config("odd", 7), deleted=True)
    assert (cache.get(ODD), dict(cache.left_out)) == (None, {})
    assert seen == ([(True, False)] if known else [])


@pytest.mark.parametrize("known", [True, False])
def test_its_deletion_is_seen_by_a_list(known: bool) -> None:
    cache = Cache(ConfigMap)
    cache.replace([config("odd", 1)] if known else [], "5")
    cache.leave_out(unreadable(6))
    cache.replace([], "9")
    assert (cache.get(ODD), dict(cache.left_out)) == (None, {})


@pytest.mark.parametrize("listed", [True, False])
def test_an_unreadable_successor_does_not_stand_for_what_had_its_name(listed: bool) -> None:
    cache = Cache(ConfigMap)
    cache.replace([config("odd", 1)], "5")
    if listed:
        cache.replace([], "8", unreadable=[unreadable(7, uid="another")])
    else:
        cache.leave_out(unreadable(7, uid="another"))
    assert cache.get(ODD) is None
    assert cache.left_out[ODD].metadata.uid == "another"


def test_our_own_write_lets_it_in_if_it_is_newer() -> None:
    cache = Cache(ConfigMap)
    cache.replace([config("odd", 1)], "5")
    cache.leave_out(unreadable(6))
    cache.write_through(config("odd", 4))
    assert (cache.get(ODD) or config("none", 0)).metadata.resource_version == "1"
    assert set(cache.left_out) == {ODD}
    cache.write_through(config("odd", 9))
    assert not cache.left_out
    cache.leave_out(unreadable(7))  # the stream is behind
    assert not cache.left_out


def test_one_that_we_know_to_be_gone_is_not_left_out() -> None:
    cache = Cache(ConfigMap)
    cache.replace([], "5", unreadable=[unreadable(4)])
    cache.bury(config("odd", 4))
    assert not cache.left_out
    cache.leave_out(unreadable(6))
    assert not cache.left_out


def test_it_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(ConfigMap)
    told: list[Key] = []
    cache.on_left_out(lambda each: told.append(each.key))
    with caplog.at_level(logging.WARNING):
        cache.replace([], "5", unreadable=[unreadable(4)])
        cache.leave_out(unreadable(6))
        cache.replace([], "8", unreadable=[unreadable(7)])
    assert [each.getMessage() for each in caplog.records] == [
        "ConfigMap ns/odd does not fit its type; "
        "nothing is done about it until it is mended or deleted"
    ]
    assert told == [ODD]


def test_many_that_do_not_fit_are_a_mistake_of_the_type() -> None:
    cache = Cache(ConfigMap)
    many = [unreadable(1, f"odd-{number}") for number in range(MOST_LEFT_OUT + 1)]
    with pytest.raises(Undecodable, match="is another version of their CRD installed"):
        cache.replace([], "5", unreadable=many)
    assert not cache.synced
    cache.replace([], "5", unreadable=many[1:])
    with pytest.raises(Undecodable):
        cache.leave_out(unreadable(9, "one-more"))


# Controllers ------------------------------------------------------------------------


def config_of_secret(secret: Secret, _: CacheView) -> Iterable[Key]:
    return (Key("ns", secret.data["of"]),)  # an unreadable one has no data


def config_by_name(secret: Object, _: CacheView) -> Iterable[Key]:
    return (secret.key,)


class Keeper(Controller[ConfigMap]):
    """Says whom it looks at, and whom it takes for gone."""

    def __init__(self, unread: Any = None) -> None:
        self.seen: list[str] = []
        self.missed: list[str] = []
        self.watches = (mapped(Secret, config_of_secret, unread=unread),)

    async def reconcile(self, obj: ConfigMap) -> Requeue | None:
        self.seen.append(obj.metadata.name)
        return None

    async def gone(self, key: Key) -> None:
        self.missed.append(key.name)


class Stage:
    def __init__(self, controller: Keeper) -> None:
        self.controller = controller
        self.manager = Manager(Client(Access(server="http://127.0.0.1:1")), [controller])
        self.configs = self.manager.caches.of(ConfigMap)
        self.secrets = self.manager.caches.of(Secret)
        self.workers = self.manager.workers[0]

    def start(self) -> None:
        self.workers.add_all()
        self.workers.start()

    async def idle(self) -> None:
        queue = self.workers.queue
        await eventually(lambda: not len(queue) and not queue.working, within=5)

    def told(self) -> list[tuple[str, str]]:
        said = self.manager.events._said.values()
        return [(str(each.event.reason), str(each.event.note)) for each in said]


async def test_who_cannot_be_read_is_neither_reconciled_nor_gone() -> None:
    stage = Stage(Keeper())
    stage.configs.replace([config("good", 1)], "5", unreadable=[unreadable(4)])
    stage.secrets.replace([], "5")
    stage.start()
    stage.workers.queue.add(ODD)
    await stage.idle()
    assert stage.controller.seen == ["good"]
    assert stage.controller.missed == []
    assert stage.told() == [
        ("Unreadable", "ConfigMap ns/odd does not fit its type; it is left as it is until then")
    ]
    stage.configs.apply(config("odd", 6))
    await stage.idle()
    assert "odd" in stage.controller.seen
    await stage.workers.stop()


async def test_nothing_is_done_by_a_version_that_is_no_longer_true() -> None:
    stage = Stage(Keeper())
    stage.configs.replace([config("odd", 1)], "5")
    stage.secrets.replace([], "5")
    stage.configs.leave_out(unreadable(6))
    stage.start()
    await stage.idle()
    assert stage.controller.seen == []
    stage.configs.apply(config("odd", 7), deleted=True)
    await stage.idle()
    assert stage.controller.missed == ["odd"]
    await stage.workers.stop()


async def test_one_that_is_deleted_after_all_is_gone() -> None:
    stage = Stage(Keeper())
    stage.configs.replace([], "5", unreadable=[unreadable(4)])
    stage.secrets.replace([], "5")
    stage.start()
    await stage.idle()
    assert stage.controller.missed == []
    stage.configs.apply(config("odd", 7), deleted=True)
    await stage.idle()
    assert "odd" in stage.controller.missed
    await stage.workers.stop()


@pytest.mark.parametrize(
    ("unread", "waits", "goes_on"),
    [
        pytest.param(None, ["a", "b"], [], id="nobody knows whom it concerns: its namespace waits"),
        pytest.param(config_by_name, ["a"], ["b"], id="who it concerns waits"),
    ],
)
async def test_who_is_concerned_waits_and_says_so(
    unread: Any, waits: list[str], goes_on: list[str]
) -> None:
    stage = Stage(Keeper(unread))
    stage.configs.replace([config("a", 1), config("b", 2)], "5")
    odd = Unreadable(unreadable(4, "a").metadata, "Secret ns/a does not fit its type")
    stage.secrets.replace([], "5", unreadable=[odd])
    stage.start()
    await stage.idle()
    assert stage.controller.seen == goes_on
    assert sorted(note for _, note in stage.told()) == [
        f"Secret ns/a does not fit its type; ns/{name} waits for it" for name in waits
    ]
    secret = Secret.named("a", "ns")
    secret.metadata.uid, secret.metadata.resource_version = "a", "9"
    stage.secrets.apply(secret, deleted=True)
    await stage.idle()
    assert set(stage.controller.seen) == {"a", "b"}
    await stage.workers.stop()


async def test_who_is_concerned_goes_on_where_an_earlier_version_is_known() -> None:
    stage = Stage(Keeper())
    stage.configs.replace([config("a", 1)], "5")
    secret = Secret.named("a", "ns")
    secret.metadata.uid, secret.metadata.resource_version = "a", "3"
    secret.data = {"of": "a"}
    stage.secrets.replace([secret], "5")
    stage.secrets.leave_out(Unreadable(unreadable(6, "a").metadata, "Secret ns/a does not fit"))
    stage.start()
    await stage.idle()
    assert stage.controller.seen == ["a"]
    await stage.workers.stop()


async def test_it_is_counted() -> None:
    stage = Stage(Keeper())
    stage.configs.replace([], "5", unreadable=[unreadable(4)])
    value = stage.manager.metrics.value("edgewise_cache_unreadable_objects", cache="configmaps")
    assert value == 1
