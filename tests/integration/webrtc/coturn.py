"""A real coturn, with the configuration that is deployed and addresses of its own."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from edgewise.exposure.turn import TurnRealm

CONFIGURATION = Path(__file__).parents[3] / "deploy" / "turn" / "turnserver.conf"
SECRET = "a secret for tests, of good length"
START_DEADLINE = 15.0
RELAYS = 64  # ports for relays: more than any test needs


class Coturn:
    """`listen` is its own address, `peers` the addresses that it may relay to."""

    def __init__(
        self,
        folder: Path,
        *,
        listen: str = "127.0.0.1",
        relay: str = "127.0.0.1",
        peers: Sequence[str] = ("127.0.0.1",),
        port: int | None = None,
        prefix: Sequence[str] = (),
        secrets: Sequence[str] = (SECRET,),
    ) -> None:
        self.listen = listen
        self.port = free_ports(listen, 1) if port is None else port
        first = free_ports(relay, RELAYS) if port is None else 20000
        file = folder / f"turnserver-{self.port}.conf"
        lines = [
            CONFIGURATION.read_text().replace("listening-port=3478", f"listening-port={self.port}"),
            *(f"static-auth-secret={secret}" for secret in secrets),
            f"listening-ip={listen}",
            f"relay-ip={relay}",
            f"min-port={first}",
            f"max-port={first + RELAYS - 1}",
            f"pidfile={folder}/turnserver-{self.port}.pid",
            f"userdb={folder}/turndb-{self.port}",
            "relay-threads=1",
            *(f"allowed-peer-ip={peer}" for peer in peers),
        ]
        if relay.startswith("127."):
            lines.append("allow-loopback-peers")
        file.write_text("\n".join(lines) + "\n")
        self.log = folder / f"turnserver-{self.port}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, "turnserver", "-c", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )

    @property
    def url(self) -> str:
        return f"turn:{self.listen}:{self.port}"

    def realm(self, *, secret: str = SECRET) -> TurnRealm:
        return TurnRealm((self.url,), secret, lifetime=120)

    def wait_until_up(self) -> None:
        """Until it answers a STUN request, sent from here."""
        request = struct.pack("!HHI12s", 1, 0, 0x2112A442, random.randbytes(12))
        deadline = time.monotonic() + START_DEADLINE
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.1)
            while time.monotonic() < deadline:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    probe.sendto(request, (self.listen, self.port))
                    probe.recv(1500)
                    return
                except OSError:
                    time.sleep(0.05)
        raise AssertionError(f"coturn does not answer: {self.log.read_text()}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)


def free_ports(address: str, count: int) -> int:
    """The first of `count` free UDP ports, below those of outgoing connections."""
    for _ in range(200):
        first = random.randrange(20000, 32768 - count)
        try:
            for port in range(first, first + count):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                    probe.bind((address, port))
        except OSError:
            continue
        return first
    raise AssertionError(f"no {count} free UDP ports in a row on {address}")
