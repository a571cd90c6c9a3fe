"""Which port of its node a server gets."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.api.games import GamePort
from edgewise.gameservers.server.ports import GamePortIndex
from edgewise.gameservers.server.settings import BadPorts, GamePorts, game_ports
from edgewise.kube.objects import Key

POD = Key("play", "arena-1-pod")


def port(name: str = "play", **more: object) -> GamePort:
    return msgspec.convert({"name": name, "containerPort": 7777, **more}, GamePort)


def test_a_server_that_failed_is_not_given_the_port_that_it_failed_with() -> None:
    index = GamePortIndex(GamePorts(7000, 7099))
    before = None
    for failures in range(5):
        number = index.choose(POD, [port()], failures)["play"]
        index.give_back(POD)
        assert number != before
        before = number


def test_two_ports_of_a_server_differ_also_after_a_failure() -> None:
    index = GamePortIndex(GamePorts(7000, 7001))
    for failures in range(3):
        found = index.choose(POD, [port(), port("admin")], failures)
        assert set(found.values()) == {7000, 7001}


def test_a_static_port_is_what_its_author_says_however_often_it_failed() -> None:
    index = GamePortIndex(GamePorts(7000, 7099))
    static = port(policy="Static", hostPort=9000)
    assert index.choose(POD, [static], 7) == {"play": 9000}


BAD_RANGES = {
    "7100-7000": "--game-ports 7100-7000 is upside down: 7100 is above 7000",
    "7000": "--game-ports '7000' is no range: write it like 7000-8000",
    "a-b": "--game-ports 'a-b' is no range: write it like 7000-8000",
    "0-10": "--game-ports 0-10: ports are numbers from 1 to 65535",
    "7000-70000": "--game-ports 7000-70000: ports are numbers from 1 to 65535",
}


@pytest.mark.parametrize("written", BAD_RANGES)
def test_a_range_that_cannot_be_meant_is_refused_with_a_sentence(written: str) -> None:
    with pytest.raises(BadPorts) as refused:
        game_ports(written)
    assert str(refused.value) == BAD_RANGES[written]


def test_with_more_servers_than_ports_each_number_is_given_about_as_often() -> None:
    index = GamePortIndex(GamePorts(7000, 7099))
    for number in range(200):
        index.choose(Key("play", f"arena-{number}-pod"), [port()])
    assert {index.holders(each) for each in range(7000, 7100)} == {2}
