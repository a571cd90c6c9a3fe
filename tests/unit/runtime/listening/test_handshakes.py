"""Whose TLS handshake is next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edgewise.runtime.listening.handshakes import Handshakes


class Scene:
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.handshakes = Handshakes(asyncio.get_running_loop())
        self._asked: dict[str, Callable[[], None]] = {}

    def ask(self, *names: str) -> None:
        for name in names:
            self._asked[name] = lambda name=name: self.begun.append(name)  # type: ignore[misc]
            self.handshakes.ask(name[0], self._asked[name])

    def forget(self, name: str) -> None:
        self.handshakes.forget(name[0], self._asked[name])


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_turn_of_the_loop_begins_one() -> None:
    scene = Scene()
    scene.ask("a1", "a2", "a3")
    await turns(1)
    assert len(scene.begun) == 1
    await turns(1)
    assert len(scene.begun) == 2


async def test_of_one_address_the_newest_goes_first_and_nobody_is_left() -> None:
    scene = Scene()
    scene.ask("a1", "a2", "a3")
    await turns(1)
    scene.ask("a4")
    await turns(5)
    assert scene.begun == ["a3", "a4", "a2", "a1"]
    assert len(scene.handshakes) == 0


async def test_many_callers_of_one_address_hold_up_nobody_else() -> None:
    scene = Scene()
    scene.ask(*(f"a{number}" for number in range(100)), "b1")
    await turns(2)
    assert scene.begun == ["a99", "b1"]
    scene.ask("c1", "b2")
    await turns(3)
    assert {"c1", "b2"} < set(scene.begun)


async def test_who_went_away_is_forgotten() -> None:
    scene = Scene()
    scene.ask("a1", "a2", "b1")
    scene.forget("a2")
    scene.forget("b1")
    scene.forget("b1")  # once more does no harm
    await turns(4)
    assert scene.begun == ["a1"]
    assert len(scene.handshakes) == 0
