"""Ports for programs that tests start."""

from __future__ import annotations

import itertools
import os
import random
import socket

# Each worker of a test run has ports of its own: two Envoys that take the same one, which Linux
# lets them, would each get a part of the other's connections.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 5
_FIRST = 10000 + 1000 * _WORKER
_PORTS = range(_FIRST, _FIRST + 1000)
# Two runs of the tests at once begin to look in different places.
_candidates = itertools.islice(itertools.cycle(_PORTS), random.randrange(len(_PORTS)), None)


def free_port() -> int:
    """A port of loopback, free for both TCP and UDP.

    It is below the range of outgoing connections, which could take it before it is used.
    """
    for port in itertools.islice(_candidates, len(_PORTS)):
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
    raise RuntimeError(f"no port is free within {_PORTS.start}-{_PORTS.stop - 1}")
