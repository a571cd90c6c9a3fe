"""A node and its pods as bare network namespaces, and real packets between them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from edgewise.local.network.cabling import ip, nft
from tests.oracles.network_policy.worlds import OUTSIDE, Case, Flow

T = TypeVar("T")
# Within one machine a packet is there at once; a busy machine is given the rest.
_QUIET = 0.15
_LONGEST = 5.0
_CLONE_NEWNET = 0x40000000
_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
LISTENED = (("TCP", 80), ("TCP", 81), ("UDP", 5000))


class Room:
    """The node forwards between pods, each on a cable of its own, and the outside on `eth0`."""

    def __init__(self, *, pods: int) -> None:
        self.names = [f"pod-{number}" for number in range(pods)]
        self.holders: dict[str, subprocess.Popen[bytes]] = {}
        self.listening: dict[tuple[str, str, int, int], socket.socket] = {}
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            for name in ("node", "outside", *self.names):
                self._hold(name)
            self._cable()
            self._listen()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _hold(self, name: str) -> None:
        holder = subprocess.Popen(
            ["unshare", "--net", "--kill-child", "sleep", "600"], stdin=subprocess.DEVNULL
        )
        self.holders[name] = holder
        self._cleanup.callback(lambda: (holder.kill(), holder.wait()))
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + _LONGEST
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def pid(self, name: str) -> int:
        return self.holders[name].pid

    def _cable(self) -> None:
        node = self.pid("node")
        for path in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            self.inside("node", lambda path=path: _allow(path))
        ip(["link set lo up"], node)
        for number, name in enumerate(["outside", *self.names]):
            link = "eth0" if name == "outside" else f"veth{number}"
            far = self.pid(name)
            ip([f"link add name {link} netns {node} type veth peer name wire netns {far}"])
            mine = self._addresses(number, name)
            ip(
                [
                    f"address add 169.254.1.1/32 dev {link}",
                    f"address add fe80::{number + 1:x}/64 dev {link} nodad",
                    f"link set {link} up",
                    *(f"route add {address} dev {link}" for address in mine),
                ],
                node,
            )
            ip(
                [
                    "link set lo up",
                    *(
                        f"address add {each} dev wire{' nodad' if ':' in each else ''}"
                        for each in mine
                    ),
                    "link set wire up",
                    "route add 169.254.1.1/32 dev wire",
                    "route add default via 169.254.1.1 dev wire onlink",
                    f"route add ::/0 via fe80::{number + 1:x} dev wire",
                ],
                far,
            )

    def _addresses(self, number: int, name: str) -> list[str]:
        if name == "outside":
            return [address for both in OUTSIDE.values() for address in both]
        return [f"10.129.1.{number + 1}", f"fd00:1::{number + 1:x}"]

    def _listen(self) -> None:
        for name in (*self.names, "outside"):
            for protocol, port in LISTENED:
                for family in _FAMILY:
                    self.listening[name, protocol, port, family] = self.inside(
                        name, lambda p=protocol, n=port, f=family: self._listener(p, n, f)
                    )

    def _listener(self, protocol: str, port: int, family: int) -> socket.socket:
        made = self._cleanup.enter_context(_socket(protocol, family))
        if family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("", port))
        if protocol == "TCP":
            made.listen(512)
        return made

    def load(self, text: str) -> None:
        nft(text, self.pid("node"))

    def inside(self, name: str, what: Callable[[], T]) -> T:
        """In another thread, so that a failure leaves nobody in a foreign network."""
        found: list[Any] = []

        def enter() -> None:
            handle = os.open(f"/proc/{self.pid(name)}/ns/net", os.O_RDONLY)
            try:
                assert ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET) == 0
                found.append(what())
            finally:
                os.close(handle)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        assert found, f"nothing came out of {name}"
        made: T = found[0]
        return made

    def place(self, name: str) -> str:
        return "outside" if name in OUTSIDE else name

    def send(self, case: Case, flows: Iterable[Flow]) -> set[Flow]:
        """Those of the flows that arrive."""
        with contextlib.ExitStack() as opened:
            connecting: dict[int, Flow] = {}
            told: dict[bytes, Flow] = {}
            poll = select.poll()
            for number, flow in enumerate(flows):
                made = opened.enter_context(self._opened(case, flow))
                target = (str(case.address(flow.destination, flow.family)), flow.port)
                if flow.protocol == "UDP":
                    told[str(number).encode()] = flow
                    made.sendto(str(number).encode(), target)
                elif made.connect_ex(target) in (0, errno.EINPROGRESS):
                    connecting[made.fileno()] = flow
                    poll.register(made, select.POLLOUT)
            return self._connected(poll, connecting) | self._heard(told)

    def _opened(self, case: Case, flow: Flow) -> socket.socket:
        made = self.inside(self.place(flow.source), lambda: _socket(flow.protocol, flow.family))
        made.bind((str(case.address(flow.source, flow.family)), 0))
        return made

    @staticmethod
    def _connected(poll: select.poll, connecting: dict[int, Flow]) -> set[Flow]:
        found: set[Flow] = set()
        while events := poll.poll(_QUIET * 1000):
            for number, what in events:
                poll.unregister(number)
                if not what & (select.POLLERR | select.POLLHUP):
                    found.add(connecting[number])
        return found

    def _heard(self, told: dict[bytes, Flow]) -> set[Flow]:
        found: set[Flow] = set()
        by_number = {each.fileno(): each for key, each in self.listening.items() if key[1] == "UDP"}
        poll = select.poll()
        for number in by_number:
            poll.register(number, select.POLLIN)
        while events := poll.poll(_QUIET * 1000):
            for number, _ in events:
                data = by_number[number].recv(100)
                if data in told:
                    found.add(told[data])
        return found

    def send_as(self, case: Case, *, liar: str, address: str, to: str) -> bool:
        """Whether a packet arrives that carries the address of `address` and comes from `liar`."""
        source, target = str(case.address(address, 4)), str(case.address(to, 4))
        flow = Flow(address, to, "UDP", 5000, 4)

        def tell() -> bool:
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
                raw.sendto(_udp(source, target, 5000, b"lie"), (target, 0))
            return True

        assert self.inside(liar, tell)
        return bool(self._heard({b"lie": flow}))

    @contextlib.contextmanager
    def conversation(self, case: Case, one: str, other: str) -> Iterator[Conversation]:
        there = self.listening[other, "UDP", 5000, 4]
        with self._opened(case, Flow(one, other, "UDP", 5000, 4)) as here:
            yield Conversation(here, there, (str(case.address(other, 4)), 5000))


class Conversation:
    """Two ends that speak with each other by UDP."""

    def __init__(self, here: socket.socket, there: socket.socket, target: tuple[str, int]) -> None:
        self.here, self.there, self.target = here, there, target
        self.back: Any = None

    def ask(self) -> bool:
        self.here.sendto(b"question", self.target)
        if not _readable(self.there):
            return False
        data, self.back = self.there.recvfrom(100)
        return data == b"question"

    def answer(self) -> bool:
        self.there.sendto(b"answer", self.back)
        return _readable(self.here) and self.here.recv(100) == b"answer"


def _readable(end: socket.socket) -> bool:
    return bool(select.select([end], [], [], _QUIET)[0])


def _socket(protocol: str, family: int) -> socket.socket:
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    made = socket.socket(_FAMILY[family], kind)
    made.setblocking(False)
    return made


def _allow(path: str) -> bool:
    # /proc/sys/net shows the network of whoever opens it.
    with open(f"/proc/sys/net/{path}", "w", encoding="ascii") as file:
        file.write("1")
    return True


def _udp(source: str, target: str, port: int, data: bytes) -> bytes:
    """An IPv4 packet; the kernel fills in lengths and checksums of the outer header."""
    length = 8 + len(data)
    udp = port.to_bytes(2) * 2 + length.to_bytes(2) + b"\0\0" + data
    header = bytes([0x45, 0]) + (20 + length).to_bytes(2) + bytes(4) + bytes([64, 17, 0, 0])
    return header + socket.inet_aton(source) + socket.inet_aton(target) + udp
