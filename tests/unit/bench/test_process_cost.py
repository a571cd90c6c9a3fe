"""What a process holds is told by kind, so that what grew has a name."""

from __future__ import annotations

import os
import select
import socket
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from edgewise.bench.process_cost import descriptors


def test_every_descriptor_has_a_kind(tmp_path: Path) -> None:
    before = Counter(descriptors(os.getpid()))
    with ExitStack() as stack:
        stack.enter_context((tmp_path / "log").open("wb"))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.enter_context(socket.create_connection(listener.getsockname()))
        stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(("", 0))
        for each in socket.socketpair():
            stack.enter_context(each)
        for number in (*os.pipe(), os.pidfd_open(os.getpid()), os.eventfd(0)):
            stack.callback(os.close, number)
        stack.enter_context(select.epoll())
        after = Counter(descriptors(os.getpid()))
    found = after - before
    assert found == {
        "file": 1,
        "tcp": 2,
        "udp": 1,
        "unix": 2,
        "pipe": 2,
        "pidfd": 1,
        "eventfd": 1,
        "eventpoll": 1,
    }
    assert Counter(descriptors(os.getpid())) == before
