"""What a game can say to its sidecar and ask of it, and when it counts as unwell."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise.agents.sidecar import sdk
from edgewise.agents.sidecar.health import Health, missed
from edgewise.agents.sidecar.said import SaidBook
from edgewise.agents.sidecar.sdk import Mistake, Sdk
from edgewise.agents.sidecar.told import Told

PLAYED = {"name": "one", "state": "Allocated", "allocation": {"uid": "a1", "match": "m"}}


class Game:
    """A game, what its sidecar keeps, and what the operator has told."""

    def __init__(self, folder: Path) -> None:
        self.book = SaidBook(folder / "said.json")
        self.told = Told("one")
        self._sdk = Sdk(self.book, self.told)

    def get(self, path: str) -> Any:
        return self._sdk.get(path)

    def post(self, path: str, **body: Any) -> Any:
        return self._sdk.post(path, body)

    def kept(self) -> dict[str, Any]:
        return self.book.words()[0]


@pytest.fixture
def game(tmp_path: Path) -> Game:
    return Game(tmp_path)


def test_before_anybody_said_anything(game: Game) -> None:
    assert game.get("/allow_delete") == {"allowed": False}
    assert game.get("/shutdown") == {"shutdown": False}
    assert game.get("/health") == {"healthy": True}
    assert game.get("/players") == {"players": []}
    assert game.get("/labels") == game.get("/annotations") == {}
    assert game.get("/state")["name"] == "one"
    assert game.kept() == {}


@pytest.mark.parametrize("path", ["/", "/stat", "/state/", "/counters/a", "/lists/a"])
def test_what_the_sdk_does_not_have(game: Game, path: str) -> None:
    assert game.get(path) is None
    assert game.post(path) is None


def test_a_game_allows_its_end_and_takes_it_back(game: Game) -> None:
    assert game.post("/allow_delete", allowed=True) == {"allowed": True}
    since = game.kept()["allowedSince"]
    game.post("/allow_delete", allowed=True)
    assert game.kept()["allowedSince"] == since, "the same word again does not begin it again"
    game.post("/allow_delete", allowed=False)
    assert game.get("/allow_delete") == {"allowed": False}
    with pytest.raises(Mistake, match="allowed must be true or false"):
        game.post("/allow_delete")


def test_a_game_that_wants_to_end_may_think_again(game: Game) -> None:
    assert game.post("/shutdown") == {"shutdown": True}
    assert game.kept() == {"shutdown": True}
    assert game.get("/shutdown") == {"shutdown": False}, "nobody asks it to"
    game.post("/shutdown", shutdown=False)
    assert game.kept() == {}


def test_a_game_is_told_that_it_shall_end(game: Game) -> None:
    asked = {"shutdown": True, "why": "Deleted", "deadline": "2026-11-18T12:00:00Z"}
    game.told.news({"name": "one", "shutdown": asked})
    assert game.get("/shutdown") == asked
    game.told.news({"name": "one", "shutdown": "broken"})
    assert game.get("/shutdown") == {"shutdown": False}


def test_a_game_takes_itself_reserves_itself_and_is_ready_again(game: Game) -> None:
    assert game.post("/allocate") == {"allocated": True}
    until = game.post("/reserve", seconds=60)["until"]
    assert game.kept() == {"allocated": True, "reservedUntil": until}
    game.post("/allocate")
    assert game.kept() == {"allocated": True}
    assert game.post("/ready") == {"ready": True}
    assert game.kept() == {"ready": True}


@pytest.mark.parametrize("seconds", [0, -1, 86_401, float("inf"), float("nan"), True, "1", None])
def test_a_time_that_cannot_be_meant(game: Game, seconds: Any) -> None:
    with pytest.raises(Mistake, match="seconds must be"):
        game.post("/reserve", seconds=seconds)


def test_a_match_is_acknowledged_and_ended_by_its_allocation(game: Game) -> None:
    with pytest.raises(Mistake, match="no allocation to acknowledge"):
        game.post("/acknowledge")
    game.told.news(PLAYED)
    assert game.post("/acknowledge") == {"acknowledged": "a1"}
    game.post("/ready")
    # That one and no later one is over.
    assert (game.kept()["acknowledged"], game.kept()["released"]) == ("a1", "a1")


def test_players_are_counted_once_and_are_so_many_at_most(game: Game) -> None:
    assert game.post("/players", players=["ann", "bob", "ann"]) == {"players": ["ann", "bob"]}
    assert game.get("/players") == {"players": ["ann", "bob"]}
    for players in (["p"] * 1001, "ann", [""], ["p" * 129], [1], None):
        with pytest.raises(Mistake, match="player"):
            game.post("/players", players=players)
    assert len(game.get("/players")["players"]) == 2


def test_labels_and_annotations_add_up_and_are_so_many_at_most(game: Game) -> None:
    game.post("/labels", map="desert")
    assert game.post("/labels", mode="duel", empty="") == {
        "map": "desert",
        "mode": "duel",
        "empty": "",
    }
    assert game.get("/labels")["map"] == "desert"
    game.post("/annotations", said="what it likes: a, b")
    assert game.get("/annotations") == {"said": "what it likes: a, b"}
    for name, value in (("a b", "c"), ("a", "c d"), ("a", "c" * 64), ("a", 1)):
        with pytest.raises(Mistake):
            game.post("/labels", **{name: value})
    with pytest.raises(Mistake, match="there may be 32 labels"):
        game.post("/labels", **{f"n{number}": "x" for number in range(30)})
    with pytest.raises(Mistake, match="bytes of JSON"):
        game.post("/annotations", **{f"n{number}": "x" * 1024 for number in range(30)})


def test_that_it_is_well_is_told_when_it_is_news(game: Game) -> None:
    game.post("/health")
    version = game.book.words()[1]
    game.post("/health")
    assert game.book.words()[1] == version, "it says so every few seconds"
    game.book.say(healthy=False)
    assert game.get("/health") == {"healthy": False}
    game.post("/health")
    assert game.kept()["healthy"] is True


def test_what_was_said_is_in_the_file_of_the_pod(game: Game, tmp_path: Path) -> None:
    game.post("/allow_delete", allowed=True)
    game.post("/players", players=["ann"])
    again = SaidBook(tmp_path / "said.json")
    assert again.words()[0] == game.kept()
    assert not again.wait_reported(0.01), "the operator may not have heard it"
    (tmp_path / "said.json").write_text("[]")
    assert SaidBook(tmp_path / "said.json").words() == ({}, 0)


RULE = Health(period=5.0, failures=3, delay=10.0)
HEALTH: dict[str, tuple[float, float | None, Health | None, bool]] = {
    "a game that never speaks and need not": (1e6, None, None, False),
    "a game that spoke once and fell silent": (116.0, 100.0, None, True),
    "a game that spoke a moment ago": (115.0, 100.0, None, False),
    "a game that must speak, in its first delay": (9.0, None, RULE, False),
    "a game that must speak, within its last period": (25.0, None, RULE, False),
    "a game that must speak and never did": (25.1, None, RULE, True),
    "a game that must speak and does": (1000.0, 990.0, RULE, False),
}


@pytest.mark.parametrize("sentence", HEALTH)
def test_who_has_missed_to_say_that_it_is_well(sentence: str) -> None:
    now, well_at, rule, expected = HEALTH[sentence]
    assert missed(now, 0.0, well_at, rule) is expected


# Over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def port(game: Game) -> Iterator[int]:
    server = sdk.serve_sdk(0, game.book, game.told)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def next_view(stream: http.client.HTTPResponse) -> Any:
    line, empty = stream.readline(), stream.readline()
    assert empty == b"\n"
    return json.loads(line.removeprefix(b"data: "))


def test_a_watch_says_what_is_and_then_all_that_changes(game: Game, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/watch")
        stream = connection.getresponse()
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert next_view(stream)["state"] == ""
        game.told.news(PLAYED)
        assert next_view(stream)["allocation"]["match"] == "m"
        game.told.news(PLAYED)  # no news
        game.told.news({**PLAYED, "state": "Draining"})
        assert next_view(stream)["state"] == "Draining"
    finally:
        connection.close()


MISTAKES = {
    "a path that is none": ("/nothing", "{}", 404, "the SDK has no POST /nothing"),
    "half of a body": ("/ready", "{", 400, "the body is no JSON"),
    "a list": ("/ready", "[]", 400, "the body must be an object"),
    "a body that is nested without end": ("/ready", "[" * 9999, 400, "the body is no JSON"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_sentence_answers(port: int, what: str) -> None:
    path, body, status, words = MISTAKES[what]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", path, body)
        answer = connection.getresponse()
        assert answer.status == status
        assert words in json.loads(answer.read())["error"]
    finally:
        connection.close()
