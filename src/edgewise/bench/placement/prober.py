"""A user of the Service, who never stops asking: how long each request took, and which failed.

    python -I -S prober.py <address> <port> <requests a second> <new | kept>

Run in a place, with nothing but the standard library. `new` opens a connection for each request;
`kept` uses connections again for as long as the server lets it, and opens one where none is free.
It asks until SIGTERM, or until its input ends, and then prints one JSON object.
"""

import asyncio
import collections
import json
import signal
import socket
import sys
import time

# A request that takes longer has failed.
PATIENCE = 5.0
REQUEST = b"GET / HTTP/1.1\r\nhost: web\r\nconnection: %s\r\n\r\n"


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def usable(self) -> bool:
        """The server has not closed it meanwhile."""
        return not self.reader.at_eof() and not self.writer.is_closing()

    def close(self) -> None:
        self.writer.close()


class Prober:
    def __init__(self, address: str, port: int, *, kept: bool) -> None:
        self.address = address
        self.port = port
        self.kept = kept
        # The one that waited longest is taken: none is forgotten until its server is gone.
        self.idle: collections.deque[Connection] = collections.deque()
        self.answers: list[tuple[float, str, float]] = []
        self.failures: list[tuple[float, str]] = []
        self.requests = 0

    async def ask(self) -> None:
        self.requests += 1
        began = time.monotonic()
        # Comparable with the clocks of other processes of this machine.
        at = time.time()
        try:
            async with asyncio.timeout(PATIENCE):
                pod = await self.answer()
            self.answers.append((at, pod, (time.monotonic() - began) * 1000))
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            self.failures.append((at, f"{type(error).__name__}: {error}"))

    async def answer(self) -> str:
        connection = await self.connection()
        done = False
        try:
            connection.writer.write(REQUEST % (b"keep-alive" if self.kept else b"close"))
            head = await connection.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
            await connection.reader.readexactly(int(fields.get("content-length", "0")))
            if first.split(" ", 2)[1] != "200":
                raise ValueError(first)
            done = self.kept and fields.get("connection") != "close"
            return fields.get("edgewise-pod", "")
        finally:
            if done:
                self.idle.append(connection)
            else:
                connection.close()

    async def connection(self) -> Connection:
        while self.idle:
            found = self.idle.popleft()
            if found.usable:
                return found
            found.close()
        return Connection(*await asyncio.open_connection(self.address, self.port))

    async def run(self, rate: float, ended: asyncio.Event) -> None:
        asking: set[asyncio.Task[None]] = set()
        next_at = time.monotonic()
        while not ended.is_set():
            task = asyncio.create_task(self.ask())
            asking.add(task)
            task.add_done_callback(asking.discard)
            next_at = max(next_at + 1 / rate, time.monotonic())
            await asyncio.sleep(next_at - time.monotonic())
        if asking:
            await asyncio.wait(asking)

    def told(self) -> dict[str, object]:
        return {"requests": self.requests, "answers": self.answers, "failures": self.failures}


async def main() -> None:
    address, port, rate, kind = sys.argv[1:5]
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_reader(sys.stdin.fileno(), ended.set)
    # Once, as a browser does: what is measured is the way to the service, not to its name.
    found = await loop.getaddrinfo(address, int(port), family=socket.AF_INET)
    prober = Prober(str(found[0][4][0]), int(port), kept=kind == "kept")
    await prober.run(float(rate), ended)
    sys.stdout.write(json.dumps(prober.told()) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
