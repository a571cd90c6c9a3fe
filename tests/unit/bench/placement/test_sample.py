"""The sample web server and the two probers, on this machine's loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.bench.placement import probing

ROOT = Path(__file__).parents[4]
PROBER = Path(probing.__file__).with_name("prober.py")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def server(port: int) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(ROOT / "examples/placement-web/server.py")],
        env=os.environ | {"PORT": str(port), "POD_NAME": "web-1"},
    ) as running:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield running
        running.kill()


def asked(connection: socket.socket) -> str:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")
    answer = b""
    while not answer.endswith(b"web-1\n"):
        more = connection.recv(65536)
        assert more, answer
        answer += more
    return answer.decode().lower()


def test_each_answer_says_the_pod_and_the_connection_stays(
    port: int, server: subprocess.Popen[bytes]
) -> None:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        for _ in range(3):
            answer = asked(connection)
            assert "edgewise-pod: web-1\r\n" in answer
            assert "connection: keep-alive\r\n" in answer
    assert server.poll() is None


def test_told_to_end_it_answers_what_is_asked_and_then_ends(
    port: int, server: subprocess.Popen[bytes]
) -> None:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        asked(connection)
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        # Whoever did not hear of it yet is answered, too.
        with socket.create_connection(("127.0.0.1", port), 5) as late:
            assert "connection: close\r\n" in asked(late)
        assert "connection: close\r\n" in asked(connection)
        assert connection.recv(10) == b""
    assert server.wait(timeout=5) == 0


@pytest.mark.parametrize("kind", ["new", "kept"])
def test_a_prober_counts_what_failed_and_knows_who_answered(
    port: int, server: subprocess.Popen[bytes], kind: str
) -> None:
    command = [sys.executable, "-I", "-S", str(PROBER), "127.0.0.1", str(port), "50", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as prober:
        time.sleep(1.0)
        server.kill()
        server.wait()
        time.sleep(0.5)
        told, _ = prober.communicate(timeout=20)
    found = json.loads(told)
    assert {pod for _, pod, _ in found["answers"]} == {"web-1"}
    assert len(found["answers"]) + len(found["failures"]) == found["requests"] > 10
    assert found["failures"], "a server that is killed is noticed"


def test_the_sample_is_found() -> None:
    from edgewise.bench.placement.objects import sample

    assert "edgewise-pod" in sample()
