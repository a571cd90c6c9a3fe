"""The cache where a sentence says more than a model: indexes, listeners, trimming, limits."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from edgewise.kube.objects import Key, Kind, Object, ObjectMeta, OwnerReference
from edgewise.runtime.caching.cache import FORGET_BURIED_AFTER, MOST_INDEXES, Cache
from edgewise.runtime.caching.selection import Selection


class Thing(Object):
    KIND = Kind("test.edgewise.dev", "v1", "Thing", "things")


def thing(
    name: str, revision: int | str, *, uid: str = "", owner: str = "", **labels: str
) -> Thing:
    owners = [
        OwnerReference(api_version="v1", kind="Pod", name="p", uid=owner, controller=True),
        OwnerReference(api_version="v1", kind="Pod", name="q", uid="bystander"),
    ]
    return Thing(
        metadata=ObjectMeta(
            name=name,
            namespace="n",
            uid=uid or f"uid-of-{name}",
            resource_version=str(revision),
            labels=labels,
            owner_references=owners if owner else [],
        )
    )


def filled(*things: Thing, revision: int = 10) -> Cache[Thing]:
    cache = Cache(Thing)
    cache.replace(things, str(revision))
    return cache


def names(things: list[Thing]) -> list[str]:
    return sorted(each.metadata.name for each in things)


def colours(each: Thing) -> list[str]:
    return each.metadata.labels.get("colours", "").split("+")


def test_objects_are_found_by_their_controlling_owner_and_by_namespace() -> None:
    cache = filled(thing("a", 1, owner="boss"), thing("b", 2, owner="other"), thing("c", 3))
    boss = Thing(metadata=ObjectMeta(name="boss", uid="boss"))
    assert names(cache.owned_by(boss)) == ["a"]
    assert cache.owned_by(Thing(metadata=ObjectMeta(uid="bystander"))) == []
    assert names(cache.all("n")) == ["a", "b", "c"]
    assert cache.all("elsewhere") == []


def test_an_index_may_answer_several_values_and_follows_changes() -> None:
    cache = filled(thing("a", 1, colours="red+green"), thing("b", 2, colours="green"))
    assert names(cache.by(colours, "green")) == ["a", "b"]
    cache.apply(thing("a", 11, colours="blue+red"))
    assert names(cache.by(colours, "green")) == ["b"]
    assert names(cache.by(colours, "blue")) == ["a"]
    assert cache.by(colours, "red")[0].metadata.resource_version == "11"
    cache.apply(thing("a", 12), deleted=True)
    assert cache.by(colours, "red") == []


def test_a_list_that_lacks_an_object_says_that_it_was_deleted() -> None:
    cache = filled(thing("a", 1), thing("b", 2))
    told: list[tuple[str | None, str | None, bool]] = []
    cache.subscribe(
        lambda old, new, bulk: told.append(
            (old and old.metadata.name, new and new.metadata.name, bulk)
        )
    )
    assert told == [(None, "a", True), (None, "b", True)]
    told.clear()
    cache.replace([thing("b", 2)], "20")
    assert told == [("a", None, True)]


def test_an_object_made_anew_under_its_old_name_is_a_deletion_and_an_addition() -> None:
    cache = filled(thing("a", 1, uid="first"))
    told: list[tuple[str | None, str | None]] = []
    cancel = cache.subscribe(
        lambda old, new, _: told.append((old and old.metadata.uid, new and new.metadata.uid))
    )
    told.clear()
    cache.replace([thing("a", 15, uid="second")], "20")
    assert told == [("first", None), (None, "second")]
    cancel()
    cache.apply(thing("a", 21, uid="second"), deleted=True)
    assert len(told) == 2


def test_a_list_from_before_what_is_known_is_believed_because_etcd_was_set_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = filled(thing("a", 100), revision=100)
    cache.write_through(thing("b", 101))
    cache.bury(thing("a", 5))
    cache.replace([thing("a", 50)], "60")
    assert names(cache.all()) == ["a"]
    assert cache.revision == 60
    assert "shows things as of 60, but had shown 100" in caplog.text


def test_a_list_never_shows_an_object_as_older_than_it_was() -> None:
    cache = filled(thing("a", 90), revision=100)
    cache.replace([thing("a", 80)], "110")
    assert [obj.metadata.resource_version for obj in cache] == ["90"]


def test_a_newer_version_of_what_is_there_is_taken_whatever_the_stream_claims() -> None:
    cache = filled(thing("a", 90), revision=100)
    cache.write_through(thing("a", 95))
    cache.write_through(thing("gone", 96))
    assert [obj.metadata.resource_version for obj in cache] == ["95"]


def test_a_broken_listener_or_index_stops_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    cache = filled()
    told = []

    def broken(*_: object) -> None:
        raise ValueError("broken")

    cache.subscribe(broken)
    cache.subscribe(lambda old, new, _: told.append(new))
    cache.by(broken, "x")
    with caplog.at_level(logging.ERROR):
        cache.apply(thing("a", 11))
    assert len(told) == 1
    assert "a listener of the Thing cache failed" in caplog.text
    assert "the index broken failed on n/a" in caplog.text


def test_indexes_that_are_made_anew_at_each_use_are_refused() -> None:
    cache = filled()
    for number in range(MOST_INDEXES):
        cache.by(lambda each, number=number: str(number), "1")
    with pytest.raises(RuntimeError, match="define each index function once"):
        cache.by(lambda each: "one too many", "1")


def test_objects_are_trimmed_wherever_they_come_from() -> None:
    def trim(each: Thing) -> Thing:
        each.metadata.annotations = {}
        return each

    def heavy(name: str, revision: int) -> Thing:
        each = thing(name, revision)
        each.metadata.annotations = {"heavy": "x"}
        return each

    cache = Cache(Thing, trim=trim)
    cache.replace([heavy("listed", 1)], "10")
    cache.apply(heavy("watched", 11))
    cache.write_through(heavy("written", 12))
    assert names(cache.all()) == ["listed", "watched", "written"]
    assert all(each.metadata.annotations == {} for each in cache)


def test_deletions_are_remembered_for_a_while_only() -> None:
    now = 0.0
    cache = Cache(Thing, monotonic=lambda: now)
    cache.replace([], "10")
    for number in range(5):
        cache.bury(thing(str(number), 5))
    now = FORGET_BURIED_AFTER + 1
    cache.bury(thing("last", 5))
    assert list(cache._buried) == ["uid-of-last", Key("n", "last")]


def test_a_deletion_after_thousands_of_others_looks_at_none_of_them() -> None:
    cache = Cache(Thing)
    cache.replace([], "10")
    for number in range(5000):
        cache.bury(thing(str(number), 5))
    took = []
    tracemalloc.start()
    try:
        for number in range(3):  # one of them may make the dictionary grow
            each = thing(f"last-{number}", 5)
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            cache.bury(each)
            took.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert min(took) < 4096, took


def test_a_later_list_corrects_a_deletion_that_was_none() -> None:
    now = 1.0
    cache = Cache(Thing, monotonic=lambda: now)
    cache.replace([thing("a", 5)], "10")
    cache.bury(thing("a", 5))
    cache.replace([thing("a", 5)], "11", begun=0.5)
    assert len(cache) == 0
    cache.replace([thing("a", 5)], "11", begun=1.5)
    assert names(cache.all()) == ["a"]


def test_what_had_a_name_before_does_not_come_back_when_its_successor_is_deleted() -> None:
    cache = filled(revision=10)
    before, after = thing("a", 11, uid="uid-before"), thing("a", 13)
    cache.write_through(after)
    cache.bury(after)
    cache.apply(before)  # the stream is late: all this was known already
    assert len(cache) == 0
    cache.replace([before], "11")
    assert len(cache) == 0
    cache.apply(thing("a", 13))
    assert len(cache) == 0
    cache.apply(thing("a", 14), deleted=True)
    successor = thing("a", 15, uid="uid-successor")
    cache.apply(successor)
    assert cache.all() == [successor]
    assert not cache._buried


def test_what_is_known_from_a_time_that_was_taken_back_hides_nothing() -> None:
    cache = filled(thing("a", 1000), thing("b", 990), revision=1000)
    lost = thing("a", 1000)
    cache.replace([thing("b", 300, uid="uid-of-old")], "500")  # etcd was restored
    cache.bury(lost)  # a delete that was answered with 404
    made_again = thing("a", 501, uid="uid-of-new")
    cache.write_through(made_again)
    assert names(cache.all()) == ["a", "b"]
    # A delete that was answered with 409, as the name has another object now.
    cache.bury(thing("b", 990))
    assert names(cache.all()) == ["a", "b"]
    changed = thing("b", 502, uid="uid-of-old")
    cache.apply(changed)
    assert cache.find("b", "n") == changed


def test_a_list_that_was_asked_for_later_is_believed_about_a_name() -> None:
    now = 1.0
    cache = Cache(Thing, monotonic=lambda: now)
    cache.replace([], "10")
    cache.bury(thing("a", 20))
    cache.replace([thing("a", 15, uid="uid-of-other")], "25", begun=0.5)
    assert len(cache) == 0
    cache.replace([thing("a", 15, uid="uid-of-other")], "25", begun=1.5)
    assert names(cache.all()) == ["a"]


def test_what_left_a_selection_and_came_back_does_not_outlive_its_deletion() -> None:
    cache = Cache(Thing, selection=Selection(labels="team=in"))
    cache.replace([thing("a", 11, team="in")], "11")
    cache.bury(thing("a", 13, team="in"))  # somebody took it out at 12, and in at 13
    cache.apply(thing("a", 12, team="out"), deleted=True)
    cache.apply(thing("a", 13, team="in"))
    assert len(cache) == 0
    cache.apply(thing("a", 14, team="in"), deleted=True)
    successor = thing("a", 15, uid="uid-successor", team="in")
    cache.apply(successor)
    assert cache.all() == [successor]


def test_where_versions_are_no_numbers_a_successor_is_seen() -> None:
    cache = Cache(Thing)
    cache.replace([thing("a", "x1")], "x1")
    cache.bury(thing("a", "x1"))
    assert len(cache) == 0
    successor = thing("a", "x2", uid="uid-successor")
    cache.apply(successor)
    assert cache.all() == [successor]


def test_before_the_first_list_own_writes_are_left_to_it() -> None:
    cache = Cache(Thing)
    cache.write_through(thing("a", 5))
    cache.bury(thing("b", 1))
    assert len(cache) == 0
    cache.replace([thing("b", 1)], "4")
    assert names(cache.all()) == ["b"]


def test_versions_that_are_no_numbers_are_never_late() -> None:
    cache = Cache(Thing)
    old, new = thing("a", 0), thing("a", 0)
    old.metadata.resource_version, new.metadata.resource_version = "x9", "x1"
    cache.replace([old], "x9")
    cache.apply(new)
    assert cache.find("a", "n") is new
