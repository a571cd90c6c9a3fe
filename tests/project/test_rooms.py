"""Every controller has the same rooms, and each knows only those that come before it.

plan, then settle, observe, apply, controller. What a plan says depends on what it is shown: it
takes neither a clock nor chance from elsewhere, and writes nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
ROOMS = ("plan", "settle", "observe", "apply", "controller")
# What measures has plans of its own, which are loads.
HOUSES = sorted(
    {path.parent for path in (SRC / "edgewise").rglob("plan.py") if "bench" not in path.parts}
)
PURE = sorted(
    path
    for house in HOUSES
    for path in (
        *house.glob("*plan.py"),
        house / "settle.py",
        *(house / "steps").glob("*.py"),
    )
    if path.is_file()
)
OUTSIDE = (
    "aiohttp",
    "asyncio",
    "os",
    "random",
    "socket",
    "subprocess",
    "time",
    "edgewise.kube.client",
    "edgewise.runtime.api",
    "edgewise.runtime.caching",
)


def imports_of(text: str) -> Iterator[str]:
    """Modules, and what is taken from them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named(path: Path) -> str:
    return str(path.relative_to(SRC / "edgewise"))


def later_rooms(house: str, room: str, text: str) -> list[str]:
    later = {f"{house}.{each}" for each in ROOMS[ROOMS.index(room) + 1 :]}
    return sorted(later & set(imports_of(text)))


@pytest.mark.parametrize("house", HOUSES, ids=named)
def test_no_room_knows_a_later_one(house: Path) -> None:
    package = ".".join(house.relative_to(SRC).parts)
    rooms = [room for room in ROOMS if (house / f"{room}.py").is_file()]
    found = {room: later_rooms(package, room, (house / f"{room}.py").read_text()) for room in rooms}
    assert found == {room: [] for room in rooms}


def outside(text: str) -> list[str]:
    return [
        name
        for name in imports_of(text)
        if any(name == each or name.startswith(f"{each}.") for each in OUTSIDE)
    ]


@pytest.mark.parametrize("path", PURE, ids=named)
def test_a_plan_takes_nothing_but_what_it_is_shown(path: Path) -> None:
    assert outside(path.read_text()) == []


@pytest.mark.parametrize(
    ("room", "text", "found"),
    [
        ("plan", "from edgewise.x.apply import carry_out", ["edgewise.x.apply"]),
        ("observe", "from edgewise.x import controller", ["edgewise.x.controller"]),
        ("apply", "from edgewise.x.observe import by_game", []),
        ("plan", "from edgewise.y.apply import carry_out", []),
    ],
)
def test_what_is_a_later_room(room: str, text: str, found: list[str]) -> None:
    assert later_rooms("edgewise.x", room, text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import time", ["time"]),
        (
            "from edgewise.runtime.api import Api",
            ["edgewise.runtime.api", "edgewise.runtime.api.Api"],
        ),
        ("from edgewise.runtime import api", ["edgewise.runtime.api"]),
        ("from datetime import datetime", []),
        ("from edgewise.runtime.requeue import Requeue", []),
    ],
)
def test_what_is_outside(text: str, found: list[str]) -> None:
    assert outside(text) == found
