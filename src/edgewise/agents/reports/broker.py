"""A mosquitto of our own: clients publish reports to it, and only we read them.

Two listeners, so that no password is needed: at the one for clients everything may be published
below the topic of reports and nothing can be read; the other one is on loopback, for us.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from edgewise.errors import ReadableError
from edgewise.placement.reports import LARGEST, TOPIC

MEMORY = 256 << 20
_PR_SET_PDEATHSIG = 1
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")


class BrokerError(ReadableError):
    """The broker cannot be run or reached, with what to do about it."""


def find_mosquitto() -> str:
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path=":".join(_PLACES))
    if found is None:
        raise BrokerError(
            "mosquitto is not installed: install the package mosquitto, or name a broker with "
            "--broker mqtt://HOST:PORT"
        )
    return found


def write_config(folder: Path, *, public: tuple[str, int], private: int) -> Path:
    """The file for mosquitto. Connections, queues and the size of a message are bounded."""
    (folder / "clients.acl").write_text(f"topic write {TOPIC}/#\n")
    (folder / "ours.acl").write_text(f"topic read {TOPIC}/#\n")
    lines = [
        "per_listener_settings true",
        "persistence false",
        "retain_available false",
        "max_queued_messages 1000",
        "max_inflight_messages 20",
        f"max_packet_size {2 * LARGEST}",
        # A client may ask the broker to remember it, and never come back.
        "persistent_client_expiration 1h",
        f"memory_limit {MEMORY}",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        f"listener {public[1]} {public[0]}",
        "max_connections 10000",
        # With 2, the broker would keep each message until its sender says more.
        "max_qos 1",
        "allow_anonymous true",
        f"acl_file {folder / 'clients.acl'}",
        f"listener {private} 127.0.0.1",
        "max_connections 16",
        "allow_anonymous true",
        f"acl_file {folder / 'ours.acl'}",
    ]
    file = folder / "mosquitto.conf"
    file.write_text("\n".join(lines) + "\n")
    # Started as root it becomes another user, who has to read all of it.
    folder.chmod(0o755)
    for each in folder.iterdir():
        each.chmod(0o644)
    return file


class Broker:
    """One that runs: the ports for clients and for us, and its end."""

    def __init__(self, public: int, private: int, ended: asyncio.Task[int]) -> None:
        self.public = public
        self.private = private
        self._ended = ended

    async def wait_for_end(self) -> None:
        """Raises when it ends by itself."""
        code = await asyncio.shield(self._ended)
        raise BrokerError(f"mosquitto ended with code {code}")


@contextlib.asynccontextmanager
async def running_broker(host: str, port: int = 0, private: int = 0) -> AsyncIterator[Broker]:
    program = find_mosquitto()
    public = port or _free_port(host)
    private = private or _free_port("127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="edgewise-broker-") as folder:
        config = write_config(Path(folder), public=(host, public), private=private)
        process = await asyncio.create_subprocess_exec(
            program,
            "-c",
            str(config),
            stdin=asyncio.subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )
        ended = asyncio.create_task(process.wait())
        try:
            await _until_open(private, process)
            yield Broker(public, private, ended)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(asyncio.shield(ended), 5)
                except TimeoutError:
                    process.kill()
            await ended


async def _until_open(port: int, process: asyncio.subprocess.Process) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while True:
        if process.returncode is not None:
            raise BrokerError(f"mosquitto ended at once, with code {process.returncode}")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                raise BrokerError("mosquitto did not listen within 10 s") from None
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
