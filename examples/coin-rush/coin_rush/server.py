"""The game server. `python3 -m coin_rush.server`

Players send datagrams of JSON: {"join": "ann"}, {"move": "up"}, {"leave": true}. Twenty times a
second each of them is sent the board. The server tells Edgewise who plays, allows its deletion
while nobody does, and tells the players when it was asked to end.
"""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any, cast

from coin_rush import sdk
from coin_rush.world import World

PORT = int(os.environ.get("PORT_GAME") or os.environ.get("GAME_PORT") or 7777)
TICK = 0.05
SILENT_SECONDS = 3.0
MOST_PLAYERS = 16
LONGEST_NAME = 32
NAME = os.environ.get("SERVER_NAME", "local")
VERSION = os.environ.get("GAME_VERSION", "1")

Address = tuple[str, int]


class Match(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.world = World()
        self.names: dict[Address, str] = {}
        self.heard: dict[Address, float] = {}
        self.ending: str | None = None  # why, if it was asked to end
        self.tick = 0
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not all that asyncio makes say that they are one.
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: Address) -> None:
        try:
            said = json.loads(data[:512])
        except ValueError:
            return
        if isinstance(said, dict):
            self.hear(said, address)

    def hear(self, said: dict[str, Any], address: Address) -> None:
        name = said.get("join")
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and address not in self.names:
            # No newcomers once it was asked to end, and no two of one name.
            if self.ending or len(self.names) >= MOST_PLAYERS or name in self.world.players:
                self.send({"full": True, "server": NAME}, address)
                return
            self.names[address] = name
            self.world.join(name)
        if address not in self.names:
            return
        self.heard[address] = time.monotonic()
        if said.get("leave"):
            self.drop(address)
        elif isinstance(said.get("move"), str):
            self.world.move(self.names[address], said["move"])

    def drop(self, address: Address) -> None:
        self.world.leave(self.names.pop(address))
        self.heard.pop(address, None)

    def send(self, message: dict[str, Any], address: Address) -> None:
        if self.transport is not None:
            self.transport.sendto(json.dumps(message).encode(), address)

    def step(self) -> None:
        """One tick: who is silent has gone, and all others see the board."""
        now = time.monotonic()
        for address in [each for each, at in self.heard.items() if now - at > SILENT_SECONDS]:
            self.drop(address)
        self.tick += 1
        board = {
            "tick": self.tick,
            "server": NAME,
            "version": VERSION,
            "coins": sorted(self.world.coins),
            "scores": self.world.scores,
            "ending": self.ending,
        }
        for address, name in self.names.items():
            self.send({**board, "you": self.world.players[name]}, address)


async def play(match: Match) -> None:
    while True:
        match.step()
        await asyncio.sleep(TICK)


async def tell(match: Match) -> None:
    """Edgewise hears who plays and whether the server may go, and says when it should."""
    # The sidecar may begin to listen after the game does.
    for pause in range(600):
        heard = await asyncio.to_thread(sdk.call, "/ready", {})
        if heard or not sdk.URL:
            break
        await asyncio.sleep(min(1.0, 0.1 * (pause + 1)))
    said: tuple[tuple[str, ...], bool] | None = None
    while True:
        players = tuple(sorted(match.names.values()))
        state = (players, not players)
        if state != said:
            # First what protects: a player must never be seen without it.
            answers = [
                await asyncio.to_thread(sdk.call, "/allow_delete", {"allowed": not players}),
                await asyncio.to_thread(sdk.call, "/players", {"players": list(players)}),
            ]
            said = state if all(answers) or not sdk.URL else None
        await asyncio.to_thread(sdk.call, "/health", {})
        asked = await asyncio.to_thread(sdk.call, "/shutdown")
        if asked.get("shutdown"):
            match.ending = str(asked.get("why") or "asked to end")
        await asyncio.sleep(0.25)


async def run() -> None:
    loop, match = asyncio.get_running_loop(), Match()
    transport, _ = await loop.create_datagram_endpoint(lambda: match, local_addr=("0.0.0.0", PORT))  # noqa: S104 - it is a server
    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    tasks = [asyncio.create_task(play(match)), asyncio.create_task(tell(match))]
    sys.stdout.write(f"{NAME} of version {VERSION} plays at port {PORT}\n")
    sys.stdout.flush()
    await done.wait()
    for task in tasks:
        task.cancel()
    transport.close()


if __name__ == "__main__":
    asyncio.run(run())
