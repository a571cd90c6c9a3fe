"""A player that plays by itself. `python3 -m coin_rush.client HOST:PORT --name ann --seconds 10`

It prints one line of JSON when it has played. Exit code 0: it played all the time; 3: nobody
answered; 4: the server was silent for more than two seconds while it played; 5: no place.
"""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from coin_rush.world import way_to

SILENCE = 2.0


@dataclass
class Report:
    name: str
    server: str = ""
    version: str = ""
    boards: int = 0
    coins: int = 0
    longest_silence: float = 0.0
    told_to_end: str | None = None
    problem: str = ""
    code: int = 0


@dataclass
class Player(asyncio.DatagramProtocol):
    name: str
    report: Report = field(init=False)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    last: float = 0.0
    transport: asyncio.DatagramTransport | None = None

    def __post_init__(self) -> None:
        self.report = Report(self.name)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not all that asyncio makes say that they are one.
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        del address
        board = json.loads(data)
        report, now = self.report, time.monotonic()
        if board.get("full"):
            report.problem, report.code = "the server takes no more players", 5
            self.heard.set()
            return
        if self.last:
            report.longest_silence = max(report.longest_silence, now - self.last)
        self.last = now
        report.boards += 1
        report.server, report.version = board["server"], board["version"]
        report.coins = board["scores"].get(self.name, 0)
        report.told_to_end = board["ending"]
        self.heard.set()
        coins = [(x, y) for x, y in board["coins"]]
        self.say({"move": way_to((board["you"][0], board["you"][1]), coins)})

    def error_received(self, exc: Exception) -> None:
        """Nobody is there yet, or any more: silence says it."""

    def say(self, message: dict[str, Any]) -> None:
        if self.transport is not None:
            self.transport.sendto(json.dumps(message).encode())


async def play(
    host: str, port: int, name: str, seconds: float, *, until_told: bool = False
) -> Report:
    """Play for so long; with `until_told` leave earlier if the server is asked to end."""
    loop, player = asyncio.get_running_loop(), Player(name)
    transport, _ = await loop.create_datagram_endpoint(lambda: player, remote_addr=(host, port))
    end = loop.time() + seconds
    try:
        while not player.heard.is_set() and loop.time() < min(end, loop.time() + 10):
            player.say({"join": name})  # datagrams get lost
            await asyncio.sleep(0.1)
        if not player.heard.is_set():
            player.report.problem, player.report.code = "nobody answered", 3
        while not player.report.code and loop.time() < end:
            if until_told and player.report.told_to_end:
                break
            if time.monotonic() - player.last > SILENCE:
                player.report.problem, player.report.code = "the server fell silent", 4
            await asyncio.sleep(0.05)
        for _ in range(3):
            player.say({"leave": True})
    finally:
        transport.close()
    player.report.longest_silence = round(player.report.longest_silence, 3)
    return player.report


def main() -> int:
    parser = argparse.ArgumentParser(prog="coin_rush.client", description=__doc__)
    parser.add_argument("server", help="HOST:PORT")
    parser.add_argument("--name", default="ann")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--until-told", action="store_true", help="leave when it is asked to end")
    given = parser.parse_args()
    host, _, port = given.server.rpartition(":")
    if not host or not port.isdecimal():
        parser.error(f"{given.server!r} should be HOST:PORT")
    report = asyncio.run(
        play(host, int(port), given.name, given.seconds, until_told=given.until_told)
    )
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    return report.code


if __name__ == "__main__":
    raise SystemExit(main())
