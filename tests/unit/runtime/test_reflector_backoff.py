"""How a reflector waits when the API server is in trouble, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from edgewise.kube.client import Listing
from edgewise.kube.errors import (
    Forbidden,
    Gone,
    ServerError,
    Silent,
    TooManyRequests,
    Unreachable,
)
from edgewise.kube.objects import Kind, Object, ObjectMeta
from edgewise.kube.watching import Change, ChangeType
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.reflector import Reflector
from edgewise.testing.virtual_time import run_in_virtual_time


class Thing(Object):
    KIND = Kind("test.edgewise.dev", "v1", "Thing", "things")


def thing(revision: int) -> Thing:
    return Thing(metadata=ObjectMeta(name="a", uid="u", resource_version=str(revision)))


class FakeApi:
    """Answers lists and watches from what a test lays out; a watch left over stays silent."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, str]] = []
        self.lists: list[Exception | int] = []
        self.watches: list[Exception | list[Change[Thing]]] = []
        self.at = 10**6  # the revision that the server has reached

    def _note(self, what: str, version: str = "") -> None:
        self.calls.append((what, round(asyncio.get_running_loop().time(), 3), version))

    async def pages(
        self, kind: Any, namespace: Any = None, *, limit: int = 0, **_: Any
    ) -> AsyncGenerator[Listing[Thing], None]:
        if limit == 1:
            self._note("look")
            yield Listing([], str(self.at))
            return
        self._note("list", str(limit))
        answer = self.lists.pop(0) if self.lists else 10
        if isinstance(answer, Exception):
            raise answer
        yield Listing([], str(answer))

    async def watch(
        self, kind: Any, namespace: Any = None, *, resource_version: str, **_: Any
    ) -> AsyncGenerator[Change[Thing], None]:
        self._note("watch", resource_version)
        if not self.watches:
            await asyncio.sleep(1e6)
        answer = self.watches.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for change in answer:
            yield change

    def times(self, what: str) -> list[float]:
        return [when for call, when, _ in self.calls if call == what]

    def versions(self, what: str) -> list[str]:
        return [version for call, _, version in self.calls if call == what]


def play(lay_out: Callable[[FakeApi], None], seconds: float = 1000.0) -> FakeApi:
    async def main() -> FakeApi:
        api = FakeApi()
        lay_out(api)
        reflector = Reflector(
            api,
            Cache(Thing),
            backoff=Backoff(first=1.0, most=8.0),
            chance=lambda: 1.0,
            monotonic=asyncio.get_running_loop().time,
        )
        running = asyncio.ensure_future(reflector.run())
        await asyncio.sleep(seconds)
        assert not running.done()
        running.cancel()
        await asyncio.wait((running,))
        return api

    return run_in_virtual_time(main())


def test_failed_lists_are_repeated_less_and_less_often() -> None:
    def lay_out(api: FakeApi) -> None:
        api.lists = [Unreachable("away")] * 6

    assert play(lay_out).times("list") == [0, 1, 3, 7, 15, 23, 31]


def test_who_is_told_to_come_back_later_comes_back_then() -> None:
    def lay_out(api: FakeApi) -> None:
        api.lists = [TooManyRequests(429, retry_after=30.0)]
        api.watches = [TooManyRequests(429, retry_after=50.0)]

    api = play(lay_out)
    # A tenth more, so that not everybody is back at the same moment.
    assert api.times("list") == [0, 33]
    assert api.times("watch") == [33, 88]


def test_who_is_told_to_come_back_at_once_still_comes_less_and_less_often() -> None:
    def lay_out(api: FakeApi) -> None:
        api.lists = [TooManyRequests(429, retry_after=0.01)] * 3

    assert play(lay_out).times("list") == [0, 1, 3, 7]


def test_an_expired_continue_token_is_answered_by_one_list_in_one_piece() -> None:
    def lay_out(api: FakeApi) -> None:
        api.lists = [Gone(410)]

    api = play(lay_out)
    assert api.times("list") == [0, 0]
    assert api.versions("list") == ["500", "0"]


def test_expired_history_is_listed_again_at_once_but_not_in_a_loop() -> None:
    def lay_out(api: FakeApi) -> None:
        api.watches = [Gone(410)] * 4

    assert play(lay_out).times("list") == [0, 0, 2, 6, 14]


def test_a_broken_watch_goes_on_where_it_was() -> None:
    def lay_out(api: FakeApi) -> None:
        api.watches = [
            [Change(ChangeType.ADDED, thing(12)), Change(ChangeType.BOOKMARK, thing(20))],
            Unreachable("cut"),
            ServerError(503),
            [Change(ChangeType.MODIFIED, thing(25))],
        ]

    api = play(lay_out)
    assert api.times("list") == [0]
    assert api.versions("watch") == ["10", "20", "20", "20", "25"]


def test_nobody_is_kept_waiting_for_a_day() -> None:
    def lay_out(api: FakeApi) -> None:
        api.lists = [TooManyRequests(429, retry_after=86400.0)]

    assert play(lay_out).times("list") == [0, 66]


def test_a_repeated_event_does_not_take_the_watch_back() -> None:
    def lay_out(api: FakeApi) -> None:
        api.watches = [
            [Change(ChangeType.ADDED, thing(12)), Change(ChangeType.MODIFIED, thing(15))],
            [Change(ChangeType.ADDED, thing(12))],
        ]

    assert play(lay_out).versions("watch") == ["10", "15", "15"]


def test_a_server_whose_state_was_set_back_is_listed_again() -> None:
    def lay_out(api: FakeApi) -> None:
        cause = {"causes": [{"reason": "ResourceVersionTooLarge"}]}
        api.lists = [100, 50]
        api.watches = [ServerError(504, "Timeout", "too large", cause)]

    api = play(lay_out)
    assert api.versions("watch") == ["100", "50"]


@pytest.mark.parametrize("end", [Unreachable("cut"), Silent("quiet"), []], ids=str)
def test_a_server_that_would_be_silent_about_having_been_set_back_is_asked(end: Any) -> None:
    def lay_out(api: FakeApi) -> None:
        api.lists = [100, 50]
        api.watches = [end]
        api.at = 50

    api = play(lay_out)
    assert api.versions("watch") == ["100", "50"]
    assert len(api.times("look")) == 1


def test_what_may_not_be_watched_is_tried_again_by_a_list() -> None:
    def lay_out(api: FakeApi) -> None:
        api.watches = [Forbidden(403), ValueError("a mistake of ours")]

    assert play(lay_out).times("list") == [0, 1, 3]


def test_a_watch_that_is_only_quiet_is_begun_anew_without_a_pause() -> None:
    def lay_out(api: FakeApi) -> None:
        api.watches = [Silent("quiet")] * 3

    api = play(lay_out)
    assert api.times("watch") == [0, 0, 0, 0]
    assert api.times("list") == [0]


def test_watches_that_end_at_once_are_not_begun_in_a_loop() -> None:
    def lay_out(api: FakeApi) -> None:
        api.watches = [[]] * 4

    assert play(lay_out).times("watch") == [0, 1, 3, 7, 15]
