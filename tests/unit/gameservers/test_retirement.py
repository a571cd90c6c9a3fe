"""Who has a server: of a match and of a list that retires it, the earlier one."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.api.games import Allocation, AllocationSpec, Server
from edgewise.gameservers import names
from edgewise.gameservers.retirement import (
    created,
    fleet_of_list,
    hold_of,
    over,
    overtaken,
    unseen,
)
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from tests.unit.gameservers.making import server

FLEET = Key("play", "arena")
replace = msgspec.structs.replace


def made(name: str, revision: int, spec: AllocationSpec) -> Allocation:
    found = Allocation.named(name, "play", spec=spec)
    return replace(
        found,
        metadata=replace(found.metadata, uid=f"u{revision}", resource_version=str(revision)),
    )


def match(revision: int, uid: str = "s1", **more: object) -> Allocation:
    return made("arena-1", revision, AllocationSpec(server_uid=uid, match="m", **more))  # type: ignore[arg-type]


def retiring(revision: int) -> Allocation:
    spec = AllocationSpec(retires={"arena-1": "s1"}, retired=True, fleet="arena")
    return made(names.retiring("arena-1"), revision, spec)


def cache_of(*allocations: Allocation, shown: int = 100) -> Cache[Allocation]:
    cache: Cache[Allocation] = Cache(Allocation)
    cache.replace([each for each in allocations if created(each) <= shown], str(shown))
    for each in allocations:
        cache.write_through(each)
    return cache


@pytest.mark.parametrize(
    ("allocations", "by_match", "retired"),
    [
        pytest.param([], False, False, id="nobody has it"),
        pytest.param([match(5)], True, False, id="a match has it"),
        pytest.param([match(5, retired=True)], False, True, id="the operator took it alone"),
        pytest.param([retiring(5)], False, True, id="a list retires it"),
        pytest.param([match(4), retiring(5)], True, False, id="the match was earlier"),
        pytest.param([match(6), retiring(5)], False, True, id="the match was later"),
        pytest.param([match(4, "s0"), retiring(5)], False, True, id="a predecessor had the match"),
        pytest.param([match(4, "s0")], False, False, id="only a predecessor was taken"),
        pytest.param([retiring(105)], False, False, id="a list that the watch has not shown"),
        pytest.param([match(4), retiring(105)], True, False, id="a match, and such a list"),
    ],
)
def test_who_has_a_server(allocations: list[Allocation], by_match: bool, retired: bool) -> None:
    hold = hold_of(server(), cache_of(*allocations))
    assert (hold.match is not None, hold.retired) == (by_match, retired)


def test_a_match_that_was_changed_keeps_its_place_in_the_order() -> None:
    changed = match(9)
    changed = replace(changed, status=replace(changed.status, revision="4"))
    cache = cache_of(changed, retiring(5))
    assert not overtaken(changed, cache)
    assert overtaken(match(9), cache)


def test_a_list_is_unseen_until_the_watch_has_shown_it() -> None:
    assert unseen(cache_of(retiring(105)), FLEET)
    assert not unseen(cache_of(retiring(5)), FLEET)
    assert not unseen(cache_of(match(105)), FLEET)


def test_only_lists_belong_to_a_fleet() -> None:
    assert list(fleet_of_list(retiring(5))) == [FLEET]
    assert list(fleet_of_list(match(5))) == []


def test_a_list_is_over_when_its_servers_are_gone_whoever_has_their_names() -> None:
    servers: Cache[Server] = Cache(Server)
    assert over(retiring(5), servers)
    here = server()
    servers.replace([here], "7")
    assert not over(retiring(5), servers)
    successor = replace(here, metadata=replace(here.metadata, uid="s2", resource_version="8"))
    servers.replace([successor], "8")
    assert over(retiring(5), servers)
