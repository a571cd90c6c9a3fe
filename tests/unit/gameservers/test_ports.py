"""Which port of its node a server gets."""

from __future__ import annotations

import msgspec

from edgewise.api.games import GamePort
from edgewise.gameservers.server.ports import GamePortIndex
from edgewise.gameservers.server.settings import GamePorts
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
