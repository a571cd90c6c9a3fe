"""A listener under attack, and what it costs: the rows of the table in docs/threat-model.md.

`python -m tests.integration.listeners.scene` prints them.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.integration.listeners.attacker import MANY, trusting
from tests.unit.kube.pems import make_pair

HERE = Path(__file__).parent
MIB = 1 << 20
PROBES = "127.0.0.1"  # where the newcomer comes from, who asks for /healthz meanwhile
ELSEWHERE = "127.0.0.2"
TLS = ("server-tls", "webhooks", "bare-tls")
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    listener: str
    attack: str
    sent: int
    before: float
    during: float
    after: float
    idle_p99: float
    attacked_p99: float
    attacked_median: float
    failures: int
    probes: int

    @property
    def growth(self) -> float:
        return max(self.during, self.after) - self.before

    def __str__(self) -> str:
        sent = f"{self.sent / MIB:.1f} MiB" if self.sent >= MIB else f"{self.sent / 1024:.1f} KiB"
        return (
            f"| {self.listener} | {self.attack} | {sent} | "
            f"{self.before:.0f} / {self.during:.0f} / {self.after:.0f} MiB | "
            f"{self.idle_p99 * 1000:.1f} / {self.attacked_p99 * 1000:.1f} ms |"
        )


class Victim:
    def __init__(self, kind: str, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.kind, self.process, self.port, self.log = kind, process, port, log
        self.tls = trusting() if kind in TLS else None

    def memory(self) -> float:
        """MiB that are resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def probe(self) -> float:
        """Seconds that a new caller waits for /healthz."""
        began = time.perf_counter()
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=5) as plain,
            self.tls.wrap_socket(plain) if self.tls is not None else plain as made,
        ):
            made.settimeout(5)
            made.sendall(GET)
            answer = made.recv(4096)
        if not answer.startswith(b"HTTP/1.1 20"):
            raise OSError(f"no answer but {answer[:40]!r}")
        return time.perf_counter() - began


@contextlib.contextmanager
def victim(kind: str, *, descriptors: int = 0) -> Iterator[Victim]:
    with tempfile.TemporaryDirectory() as folder:
        make_pair(Path(folder), "server")
        log = Path(folder) / "log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [sys.executable, str(HERE / "victim.py"), kind, folder, str(descriptors)],
                stdout=subprocess.PIPE,
                stderr=written,
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            yield Victim(kind, process, int(line), log)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


class Probing:
    """Asks /healthz again and again, each time over a new connection."""

    def __init__(self, at: Victim, pause: float = 0.01) -> None:
        self.times: list[float] = []
        self.failures = 0
        self._at, self._pause = at, pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.wait(self._pause):
            try:
                self.times.append(self._at.probe())
            except (OSError, ssl.SSLError):
                self.failures += 1

    def __enter__(self) -> Probing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.times, n=100)[98]


@contextlib.contextmanager
def attacking(
    at: Victim, attack: str, seconds: float, number: int = MANY, address: str = PROBES
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "attacker.py"),
            attack,
            str(at.port),
            str(seconds),
            "tls" if at.tls is not None else "plain",
            str(number),
            address,
        ],
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def measure(
    kind: str,
    attack: str,
    seconds: float = 6.0,
    *,
    number: int = MANY,
    idle_seconds: float = 2.0,
    address: str = PROBES,
    aside: str = "",
) -> Row:
    """With `aside`, a listener of that kind is attacked, and the other one asked beside it."""
    with victim(kind) as at, victim(aside) if aside else contextlib.nullcontext(at) as attacked_at:
        for _ in range(20):
            at.probe()  # what is made once is there
        with Probing(at) as idle:
            time.sleep(idle_seconds)
        before = during = at.memory()
        with (
            Probing(at) as attacked,
            attacking(attacked_at, attack, seconds, number, address) as attacker,
        ):
            while attacker.poll() is None:
                during = max(during, at.memory())
                time.sleep(0.02)
            assert attacker.stdout is not None
            sent = int(attacker.stdout.read())
        time.sleep(idle_seconds / 2)
        return Row(
            listener=f"{kind} beside {aside}" if aside else kind,
            attack=attack if address == PROBES else f"{attack}, from elsewhere",
            sent=sent,
            before=before,
            during=during,
            after=at.memory(),
            idle_p99=idle.p99,
            attacked_p99=attacked.p99,
            attacked_median=statistics.median(attacked.times),
            failures=attacked.failures,
            probes=attacked.failures + len(attacked.times),
        )


ATTACKS = [
    ("server", "header-lines"),
    ("server", "one-header"),
    ("server", "url"),
    ("server", "trailers"),
    ("server", "half-headers"),
    ("server", "pipelined"),
    ("server-tls", "header-lines"),
    ("server-tls", "half-handshakes"),
    ("server-tls", "hellos"),
    ("webhooks", "header-lines"),
    ("webhooks", "half-handshakes"),
    ("webhooks", "hellos"),
    ("health", "header-lines"),
    ("health", "half-headers"),
    ("health", "pipelined"),
    ("control", "header-lines"),
    ("control", "half-headers"),
    ("ping", "one-header"),
    ("ping", "half-headers"),
]

# What the same attacks cost where nothing of ours is: a listener that takes connections and never
# reads, with another one asked beside it, and the least that asyncio can do, asked itself.
FLOORS = [
    ("bare", "header-lines"),
    ("bare", "one-header"),
    ("bare", "half-headers"),
    ("bare", "pipelined"),
    ("bare-tls", "half-handshakes"),
    ("bare-tls", "hellos"),
]


def rows(chosen: set[str]) -> Iterator[Row]:
    """Of listeners, attacks, or both; `floor` for the floors; without any: all."""
    addresses = sorted(chosen & {PROBES, ELSEWHERE}) or [PROBES]
    chosen = chosen - {PROBES, ELSEWHERE}
    for kind, attack in ATTACKS:
        if chosen <= {kind, attack}:
            for address in addresses:
                yield measure(kind, attack, address=address)
    for kind, attack in FLOORS:
        if chosen <= {"floor", kind, attack}:
            # A handshake that is never begun needs no reader, and a stream without one stands.
            for aside in ("sink", ""):
                yield measure(kind, attack, aside=aside)


if __name__ == "__main__":
    for row in rows(set(sys.argv[1:])):
        failed = f"{row.failures} of {row.probes} probes failed"
        print(row, failed, f"median {row.attacked_median * 1000:.1f}", flush=True)  # noqa: T201
