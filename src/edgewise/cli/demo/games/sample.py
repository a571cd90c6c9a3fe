"""The sample game as the demo runs it: its image, its objects, and its players.

It is part of the repository and not of the package.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edgewise.api.games import GameAutoscaler
from edgewise.cli.demo.play import DemoError
from edgewise.local.images.building import App
from edgewise.local.images.oci import Settings

FOLDER = Path(__file__).parents[5] / "examples" / "coin-rush"
IMAGE = "edgewise.local/coin-rush:1"
GAME = "coin-rush"


def check_sample() -> None:
    if not FOLDER.is_dir():
        raise DemoError(
            f"there is no {FOLDER}: the sample game is not part of the installed package, so run "
            "this from a checkout of the repository"
        )


def image() -> App:
    return App(
        name=IMAGE,
        add=[(FOLDER / "coin_rush", "/app/coin_rush")],
        settings=Settings(
            command=["python3", "-m", "coin_rush.server"], user="65534", folder="/app"
        ),
    )


def game_type(namespace: str, version: str) -> dict[str, Any]:
    """The sample's own manifest, of one version or another."""
    game: dict[str, Any] = yaml.safe_load((FOLDER / "game-type.yaml").read_text())
    game["metadata"]["namespace"] = namespace
    (container,) = game["spec"]["fleetSpec"]["spec"]["pod"]["containers"]
    container["env"] = [{"name": "GAME_VERSION", "value": version}]
    return game


def autoscaler(namespace: str, free: int) -> dict[str, Any]:
    return {
        "apiVersion": GameAutoscaler.KIND.api_version,
        "kind": GameAutoscaler.KIND.kind,
        "metadata": {"name": GAME, "namespace": namespace},
        "spec": {
            "gameName": GAME,
            "policy": {"type": "buffer", "buffer": {"size": free}},
            "sync": {"type": "onchange"},
        },
    }


class Played(msgspec.Struct, frozen=True):
    """What a player saw; see the sample's README."""

    name: str
    server: str
    version: str
    boards: int
    coins: int
    longest_silence: float
    told_to_end: str | None
    problem: str
    code: int


class Player:
    """A player of its own program, which goes on until it is told that the server has to end."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, seconds: float = 60.0) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "coin_rush.client", self.address, "--name", self.name),
            *("--seconds", str(seconds), "--until-told"),
            cwd=FOLDER,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )

    @property
    def playing(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def end(self) -> Played:
        """When it has left by itself, what it saw; DemoError if it was cut off."""
        if self._process is None:
            raise DemoError(f"{self.name} never played")
        out, _ = await asyncio.wait_for(self._process.communicate(), 60)
        try:
            report = msgspec.convert(json.loads(out), Played)
        except (ValueError, msgspec.ValidationError):
            raise DemoError(f"{self.name} could not play at {self.address}") from None
        if report.code or not report.boards:
            raise DemoError(f"{self.name} was cut off: {report.problem or 'no board came'}")
        return report

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
