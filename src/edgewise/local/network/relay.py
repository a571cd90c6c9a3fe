"""A cable that takes its time: holds every frame for a while, in both directions.

    python -I -S relay.py <near link> <far link> <milliseconds | file of distances | try>

For kernels without netem. It stands between two links of one network namespace.
Frames keep the offload data they came with, so that large ones need not be cut up
and checksums not be computed here.

With a number, every frame takes as long. With a file, what takes how long depends on
whom the machine behind the far link speaks with. The file has a line for each distance:
a name, the milliseconds, how much they vary, and addresses or networks. It may be replaced
at any time, and no frame of a flow ever leaves before one that came before it.
"""

import contextlib
import heapq
import os
import random
import select
import socket
import sys
import time

SOL_PACKET = 263
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
LARGEST = 10 + 14 + 65536 + 64
# More than this in the air is dropped, as a real line would.
MOST_FRAMES = 20000
BURST = 64

# Where things are in what such a socket reads: offload data, Ethernet, IPv4.
ETHERTYPE = slice(22, 24)
IPV4 = b"\x08\x00"
HEADER = 24
PROTOCOL = 33
SOURCE = slice(36, 40)
TARGET = slice(40, 44)
WITH_PORTS = (6, 17)

# Flows share this many clocks: two that meet in one only wait for each other.
CLOCKS = 4096
# How often the file is looked at, in seconds.
LOOK_EVERY = 0.05
# A delay varies like a bell, cut off at so many standard deviations.
CUT = 3.0
PRIORITY = -15


class Everywhere:
    """One distance for all frames."""

    def __init__(self, milliseconds: float) -> None:
        self.seconds = milliseconds / 1000

    def of(self, _frame: bytes, _far: slice) -> float:
        return self.seconds

    def look(self) -> None:
        """A number does not change."""


class Distances:
    """By far address: first the address itself, then its /24, then none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.seen: tuple[int, int] = (0, 0)
        self.by_address: dict[bytes, tuple[float, float]] = {}
        self.read()

    def read(self) -> None:
        status = os.stat(self.path)
        self.seen = (status.st_mtime_ns, status.st_ino)
        with open(self.path, encoding="utf-8") as file:
            self.by_address = parsed(file.read())

    def look(self) -> None:
        """Read it again if it was replaced; whatever is wrong with it, the old holds."""
        try:
            status = os.stat(self.path)
            if (status.st_mtime_ns, status.st_ino) != self.seen:
                self.read()
        except (OSError, ValueError) as error:
            sys.stderr.write(f"{self.path} cannot be read: {error}\n")

    def of(self, frame: bytes, far: slice) -> float:
        if frame[ETHERTYPE] != IPV4:
            return 0.0  # who has which address is found out at once
        address = frame[far]
        found = self.by_address.get(address) or self.by_address.get(address[:3])
        if found is None:
            return 0.0
        delay, deviation = found
        if deviation:
            farthest = CUT * deviation
            delay += max(-farthest, min(farthest, random.gauss(0.0, deviation)))
        return max(0.0, delay)


def parsed(text: str) -> dict[bytes, tuple[float, float]]:
    """Seconds and their deviation by address, or by the first three bytes of a /24."""
    found: dict[bytes, tuple[float, float]] = {}
    for line in text.splitlines():
        _, delay, deviation, *networks = line.split()
        for network in networks:
            address, _, length = network.partition("/")
            key = socket.inet_aton(address)[: 3 if length == "24" else 4]
            found[key] = (float(delay) / 1000, float(deviation) / 1000)
    return found


def flow(frame: bytes) -> int:
    """Which clock a frame goes by: all frames of a flow by the same."""
    if frame[ETHERTYPE] != IPV4:
        return 0
    ports = b""
    if frame[PROTOCOL] in WITH_PORTS:
        start = HEADER + (frame[HEADER] & 15) * 4
        ports = frame[start : start + 4]
    return hash((frame[SOURCE], frame[TARGET], frame[PROTOCOL], ports)) % CLOCKS


class Direction:
    """The frames that came in at one end and are on their way to the other."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        far: slice,
        delays: "Everywhere | Distances",
    ) -> None:
        self.source = source
        self.target = target
        self.far = far
        self.delays = delays
        self.clocks = [0.0] * CLOCKS
        self.held: list[tuple[float, int, bytes]] = []
        self.count = 0

    def take_in(self) -> None:
        for _ in range(BURST):
            try:
                frame = self.source.recv(LARGEST)
            except BlockingIOError:
                return
            if len(self.held) < MOST_FRAMES:
                self.hold(frame, time.monotonic())

    def hold(self, frame: bytes, now: float) -> None:
        clock = flow(frame)
        # A delay that became shorter, or varies, lets nothing overtake.
        leaves = max(now + self.delays.of(frame, self.far), self.clocks[clock])
        self.clocks[clock] = leaves
        self.count += 1
        heapq.heappush(self.held, (leaves, self.count, frame))

    def let_go(self, now: float) -> None:
        while self.held and self.held[0][0] <= now:
            try:
                self.target.send(heapq.heappop(self.held)[2])
            except BlockingIOError:
                continue  # the link is full: as on a real one, the frame is lost


def opened(link: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((link, ETH_P_ALL))
    end.setblocking(False)
    return end


def relay(near: socket.socket, far: socket.socket, delays: "Everywhere | Distances") -> None:
    """Until a link goes away, which raises."""
    directions = {
        near: Direction(near, far, SOURCE, delays),
        far: Direction(far, near, TARGET, delays),
    }
    ends = list(directions)
    looked = time.monotonic()
    while True:
        now = time.monotonic()
        due = [way.held[0][0] for way in directions.values() if way.held]
        wait = min([looked + LOOK_EVERY, *due]) - now
        # Unlike epoll, it waits for less than a millisecond, too.
        for end in select.select(ends, (), (), max(0.0, wait))[0]:
            directions[end].take_in()
        now = time.monotonic()
        for way in directions.values():
            way.let_go(now)
        if now - looked >= LOOK_EVERY:
            delays.look()
            looked = now


def main() -> None:
    near, far, what = sys.argv[1:4]
    try:
        if what == "try":  # whether this machine could
            opened(near)
            return
        # A cable does not wait for a core; where we may not say so, it does.
        with contextlib.suppress(OSError):
            os.nice(PRIORITY)
        delays = Distances(what) if what.startswith("/") else Everywhere(float(what))
        relay(opened(near), opened(far), delays)
    except (OSError, ValueError) as error:
        sys.exit(f"relay between {near} and {far}: {error}")


if __name__ == "__main__":
    main()
