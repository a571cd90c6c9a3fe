"""A cable that takes its time: holds every frame for a while, in both directions.

    python -I -S relay.py <link> <link> <milliseconds>

For kernels without netem. It stands between two links of one network namespace.
Frames keep the offload data they came with, so that large ones need not be cut up
and checksums not be computed here.
"""

import collections
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


def opened(link: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((link, ETH_P_ALL))
    end.setblocking(False)
    return end


def relay(one: socket.socket, other: socket.socket, delay: float) -> None:
    """Until a link goes away, which raises."""
    across = {one: other, other: one}
    # One queue will do: the delay is the same for all, so what came first leaves first.
    held: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
    poll = select.epoll()
    ends = {end.fileno(): end for end in across}
    for number in ends:
        poll.register(number, select.EPOLLIN)
    while True:
        wait = -1.0 if not held else max(0.0, held[0][0] - time.monotonic())
        for number, _ in poll.poll(wait):
            take_in(ends[number], across[ends[number]], held, delay)
        now = time.monotonic()
        while held and held[0][0] <= now:
            _, target, frame = held.popleft()
            try:
                target.send(frame)
            except BlockingIOError:
                continue  # the link is full: as on a real one, the frame is lost


def take_in(
    source: socket.socket,
    target: socket.socket,
    held: "collections.deque[tuple[float, socket.socket, bytes]]",
    delay: float,
) -> None:
    for _ in range(BURST):
        try:
            frame = source.recv(LARGEST)
        except BlockingIOError:
            return
        if len(held) < MOST_FRAMES:
            held.append((time.monotonic() + delay, target, frame))


def main() -> None:
    one, other, milliseconds = sys.argv[1:4]
    try:
        relay(opened(one), opened(other), float(milliseconds) / 1000)
    except OSError as error:
        sys.exit(f"relay between {one} and {other}: {error}")


if __name__ == "__main__":
    main()
