"""The cache against a model of an API server, with hypothesis choosing what happens when.

The model keeps every state that each object ever had. At any moment the cache has to show
a state that is real, never older than what it showed before, never older than the stream,
and never older than our own last answered write.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from edgewise.kube.objects import Key, Kind, Object, ObjectMeta
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection

# Mostly one name: what goes wrong between an object and its successor needs many steps.
NAMES = st.sampled_from("aaaabc")
TEAMS = st.sampled_from(["in", "out"])


class Thing(Object):
    KIND = Kind("test.edgewise.dev", "v1", "Thing", "things")


def team_of(thing: Thing) -> str | None:
    return thing.metadata.labels.get("team")


class Server:
    """Objects, the history of each, and the events a watch would show."""

    def __init__(self, selects: Any) -> None:
        self.selects = selects
        self.revision = 10
        self.uids = 0
        self.objects: dict[str, Thing] = {}
        self.events: list[tuple[Thing, bool]] = []
        # For each name: (revision, what a selecting reader sees from then on)
        self.history: dict[str, list[tuple[int, Thing | None]]] = {
            name: [(0, None)] for name in ("a", "b", "c")
        }

    def write(self, name: str, team: str) -> Thing:
        self.revision += 1
        old = self.objects.get(name)
        if old is None:
            self.uids += 1
        uid = old.metadata.uid if old else f"uid-{self.uids}"
        new = Thing(
            metadata=ObjectMeta(
                name=name,
                namespace="n",
                uid=uid,
                resource_version=str(self.revision),
                labels={"team": team},
            )
        )
        self.objects[name] = new
        self._record(name, old, new, new)
        return new

    def delete(self, name: str) -> Thing:
        self.revision += 1
        old = self.objects.pop(name)
        last = msgspec.structs.replace(
            old,
            metadata=msgspec.structs.replace(old.metadata, resource_version=str(self.revision)),
        )
        self._record(name, old, None, last)
        return old

    def _record(self, name: str, old: Thing | None, new: Thing | None, shown: Thing) -> None:
        was = old is not None and self.selects(old)
        is_ = new is not None and self.selects(new)
        self.history[name].append((self.revision, new if is_ else None))
        if was or is_:
            self.events.append((shown, not is_))

    def listing(self) -> tuple[list[Thing], str]:
        return [obj for obj in self.objects.values() if self.selects(obj)], str(self.revision)


class CacheModel(RuleBasedStateMachine):
    answers: Bundle[Any] = Bundle("answers")
    listings: Bundle[Any] = Bundle("listings")
    labels = ""

    def __init__(self) -> None:
        super().__init__()
        selection = Selection(labels=self.labels)
        self.server = Server(selection.matcher())
        self.cache: Cache[Thing] = Cache(Thing, selection=selection)
        self.mirror: dict[Key, Thing] = {}
        self.cache.subscribe(self.listen)
        self.cache.replace(*self.server.listing())
        self.position = 0  # of the stream, in the events
        self.floor = dict.fromkeys("abc", 0)  # index in the history that was shown
        self.own = dict.fromkeys("abc", 0)  # revision of our last answered write
        self.listing_since: int | None = None
        self.unanswered: set[str] = set()  # whoever writes an object awaits the answer

    def listen(self, old: Thing | None, new: Thing | None, bulk: bool) -> None:
        if old is None:
            assert new is not None
            assert new.key not in self.mirror, "told twice that it is new"
        else:
            assert self.mirror.pop(old.key) is old, "told of a change from something else"
        if new is not None:
            assert old is None or old.metadata.uid == new.metadata.uid
            self.mirror[new.key] = new

    @rule(name=NAMES, team=TEAMS)
    def somebody_writes(self, name: str, team: str) -> None:
        self.server.write(name, team)

    @rule(name=NAMES)
    def somebody_deletes(self, name: str) -> None:
        if name in self.server.objects:
            self.server.delete(name)

    @rule(target=answers, name=NAMES, team=TEAMS)
    def we_write(self, name: str, team: str) -> Any:
        if name in self.unanswered:
            return ("nothing", None, 0)
        self.unanswered.add(name)
        return ("written", self.server.write(name, team), self.server.revision)

    @rule(target=answers, name=NAMES)
    def we_delete(self, name: str) -> Any:
        cached = self.cache.find(name, "n")
        there = self.server.objects.get(name)
        # A delete names the uid that was seen, as the API facade does.
        if there is None or (cached and cached.metadata.uid != there.metadata.uid):
            return ("nothing", None, 0)
        if name in self.unanswered:
            return ("nothing", None, 0)
        self.unanswered.add(name)
        return ("deleted", self.server.delete(name), self.server.revision)

    @rule(answer=consumes(answers))
    def our_answer_arrives(self, answer: Any) -> None:
        verb, obj, revision = answer
        if verb == "nothing":
            return
        if verb == "written":
            self.cache.write_through(obj)
        else:
            self.cache.bury(obj)
        name = obj.metadata.name
        self.unanswered.remove(name)
        self.own[name] = max(self.own[name], revision)

    @rule(name=NAMES, team=TEAMS)
    def we_write_and_hear(self, name: str, team: str) -> None:
        self.our_answer_arrives(self.we_write(name, team))

    @rule(name=NAMES)
    def we_delete_and_hear(self, name: str) -> None:
        self.our_answer_arrives(self.we_delete(name))

    @rule(count=st.integers(1, 4))
    def stream_delivers(self, count: int) -> None:
        if self.listing_since is not None:
            return  # one reflector lists or watches, never both
        for obj, deleted in self.server.events[self.position : self.position + count]:
            self.cache.apply(obj, deleted=deleted)
            self.position += 1

    @rule(back=st.integers(1, 5))
    def stream_repeats(self, back: int) -> None:
        if self.listing_since is None and self.position - back >= 0:
            obj, deleted = self.server.events[self.position - back]
            self.cache.apply(obj, deleted=deleted)

    @rule()
    def bookmark(self) -> None:
        if self.listing_since is None and self.position == len(self.server.events):
            self.cache.progress(str(self.server.revision))

    @rule(target=listings)
    def list_starts(self) -> Any:
        if self.listing_since is not None:
            return None
        self.listing_since = len(self.server.events)
        return (*self.server.listing(), time.monotonic())

    @rule(listing=consumes(listings))
    def list_ends(self, listing: Any) -> None:
        if listing is None or self.listing_since is None:
            return
        items, revision, begun = listing
        self.cache.replace(items, revision, begun=begun)
        self.position, self.listing_since = self.listing_since, None

    @invariant()
    def shows_nothing_older_than_before(self) -> None:
        for name, history in self.server.history.items():
            shown = self.cache.find(name, "n")
            start = self.floor[name]
            while start + 1 < len(history) and history[start + 1][0] <= self.own[name]:
                start += 1
            for at in range(start, len(history)):
                if history[at][1] is shown:
                    self.floor[name] = at
                    break
            else:
                raise AssertionError(f"{name}: shows {shown}, but may only show {history[start:]}")

    @invariant()
    def listeners_and_indexes_agree(self) -> None:
        everything = {obj.key: obj for obj in self.cache}
        assert self.mirror == everything
        for team in ("in", "out"):
            expected = {key for key, obj in everything.items() if team_of(obj) == team}
            assert {obj.key for obj in self.cache.by(team_of, team)} == expected

    def teardown(self) -> None:
        """In the end, when everything has been delivered, nothing is lost and nothing too much."""
        if self.listing_since is not None:
            self.cache.replace(*self.server.listing())
            self.position = len(self.server.events)
        for obj, deleted in self.server.events[self.position :]:
            self.cache.apply(obj, deleted=deleted)
        listed, _ = self.server.listing()
        assert {obj.key: obj for obj in self.cache} == {obj.key: obj for obj in listed}


class SelectingCacheModel(CacheModel):
    labels = "team=in"


EXAMPLES = 3000 if os.environ.get("EDGEWISE_CHAOS") else 300
CacheModel.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
SelectingCacheModel.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
TestCache = pytest.mark.chaos(CacheModel.TestCase)
TestSelectingCache = pytest.mark.chaos(SelectingCacheModel.TestCase)
