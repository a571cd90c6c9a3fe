"""A game has one autoscaler: which second one is refused, which passes, and which is warned of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.games import GROUP, VERSION, GameAutoscaler, GameType
from edgewise.gameservers.autoscaler.review import Rivals
from edgewise.kube.errors import NotFound
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, UserInfo

GAMES = ("arena", "chess")


def scaler(
    name: str, game: str = "arena", *, namespace: str = "play", deleting: bool = False
) -> GameAutoscaler:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    policy = {"type": "buffer", "buffer": {"size": 2}}
    return msgspec.convert(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "GameAutoscaler",
            "metadata": meta,
            "spec": {"gameName": game, "policy": policy},
        },
        GameAutoscaler,
    )


def game(name: str, namespace: str) -> GameType:
    return msgspec.convert(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "GameType",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"fleetSpec": {"spec": {"pod": {}}}},
        },
        GameType,
    )


class Stored:
    """What the API server has; the cache may be a little behind."""

    def __init__(self, *scalers: GameAutoscaler) -> None:
        self._scalers = {each.key: each for each in scalers}

    async def get(self, kind: type[Object], name: str, namespace: str) -> Object:
        if kind is GameType and name in GAMES:
            return game(name, namespace)
        for key, found in self._scalers.items():
            if kind is GameAutoscaler and (key.name, key.namespace) == (name, namespace):
                return found
        raise NotFound("there is none")


async def verdict(
    asked: GameAutoscaler, known: list[GameAutoscaler], stored: list[GameAutoscaler] | None = None
) -> str:
    """Why it is refused, or what the author is warned of."""
    cache: Cache[GameAutoscaler] = Cache(GameAutoscaler)
    cache.replace(known, "1")
    client: Any = Stored(*(known if stored is None else stored))
    request = AdmissionRequest(
        uid="u",
        operation="CREATE",
        subresource="",
        raw_object=b"",
        name=asked.metadata.name,
        namespace=asked.metadata.namespace,
        object=asked,
        old_object=None,
        user=UserInfo(username="olga"),
        dry_run=False,
    )
    found = await Rivals(client, cache).review(request)
    if isinstance(found, Denied):
        assert found.code == 422
        return found.sentence
    assert isinstance(found, Allowed)
    return "; ".join(found.warnings)


FIRST, OTHER = scaler("first"), scaler("other", "chess")

PASSES: dict[str, tuple[GameAutoscaler, list[GameAutoscaler], list[GameAutoscaler] | None]] = {
    "the only one": (FIRST, [], None),
    "one of another game": (FIRST, [OTHER], None),
    "one of a game of that name in another namespace": (
        FIRST,
        [scaler("far", namespace="elsewhere")],
        None,
    ),
    "itself, whose game changed to and fro": (FIRST, [FIRST], None),
    "one whose rival is being deleted": (
        scaler("second"),
        [scaler("first", deleting=True)],
        None,
    ),
    "one whose rival was deleted just now": (scaler("second"), [FIRST], []),
    "one whose rival scales another game by now": (
        scaler("second"),
        [FIRST],
        [scaler("first", "chess")],
    ),
    "one that is being deleted": (scaler("second", deleting=True), [FIRST], None),
    "one whose name the API server makes": (scaler(""), [OTHER], None),
}


@pytest.mark.parametrize("sentence", PASSES)
async def test_passes(sentence: str) -> None:
    assert await verdict(*PASSES[sentence]) == ""


REFUSED = {
    "a second one": (scaler("second"), [FIRST, OTHER]),
    "a second one whose name the API server makes": (scaler(""), [FIRST]),
    "another one that comes to the game": (scaler("other"), [FIRST, OTHER]),
}


@pytest.mark.parametrize("sentence", REFUSED)
async def test_is_refused_and_the_other_is_named(sentence: str) -> None:
    assert await verdict(*REFUSED[sentence]) == (
        "spec.gameName: GameAutoscaler first scales arena already; "
        "change that one, or delete it first"
    )


@pytest.mark.parametrize("game", ["go", "first"])
async def test_one_of_no_game_passes_with_a_warning(game: str) -> None:
    """A folder of manifests may bring the game a moment later."""
    assert await verdict(scaler("second", game), [FIRST]) == (
        f"spec.gameName: there is no GameType {game} in the namespace play; "
        "nothing is scaled until there is one"
    )


def test_while_no_operator_answers_everything_passes() -> None:
    client: Any = None
    hook = Rivals(client, Cache(GameAutoscaler)).webhook()
    assert not hook.fail_closed
    assert hook.operations == ("CREATE", "UPDATE")
