"""What the relay decides: how long a frame is held, and in which order frames leave."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.local.network import relay
from edgewise.local.network.relay import Direction, Distances, Everywhere

ROME = "10.64.1.201"
NODE = "10.64.1.13"
POD = "10.129.3.7"
ELSEWHERE = "10.64.1.1"
FILE = f"edge-3 12.5 0 {NODE} 10.129.3.0/24\nedge-4 250 0 10.64.1.14 10.129.4.0/24\n"
ARP = b"\0" * 10 + b"\xff" * 12 + b"\x08\x06" + b"\0" * 28


def frame(source: str, target: str, port: int = 1000, mark: int = 0) -> bytes:
    ip = bytes([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0])
    ip += socket.inet_aton(source) + socket.inet_aton(target)
    return b"\0" * 10 + b"\2" * 12 + relay.IPV4 + ip + struct.pack("!HHI", port, 80, mark)


class Link:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)


def distances(tmp_path: Path, text: str = FILE) -> Distances:
    path = tmp_path / "distances"
    path.write_text(text)
    return Distances(str(path))


@pytest.mark.parametrize(
    ("what", "sent", "milliseconds"),
    [
        ("a pod takes as long as its node", frame(ROME, POD), 12.5),
        ("a node itself", frame(ROME, NODE), 12.5),
        ("a pod of another node", frame(ROME, "10.129.4.9"), 250),
        ("the control plane is near", frame(ROME, ELSEWHERE), 0),
        ("who has which address is found out at once", ARP, 0),
    ],
)
def test_from_the_place_it_is_the_target_that_counts(
    tmp_path: Path, what: str, sent: bytes, milliseconds: float
) -> None:
    assert distances(tmp_path).of(sent, relay.TARGET) * 1000 == pytest.approx(milliseconds), what


def test_towards_the_place_it_is_the_source_that_counts(tmp_path: Path) -> None:
    assert distances(tmp_path).of(frame(POD, ROME), relay.SOURCE) * 1000 == pytest.approx(12.5)


def test_with_a_number_every_frame_takes_as_long() -> None:
    assert [Everywhere(20).of(each, relay.TARGET) for each in (ARP, frame(ROME, POD))] == [0.02] * 2


def test_jitter_varies_around_the_delay_and_is_never_negative(tmp_path: Path) -> None:
    delays = distances(tmp_path, f"edge-3 4 2 {NODE}\n")
    seen = [delays.of(frame(ROME, NODE), relay.TARGET) for _ in range(2000)]
    assert 0 <= min(seen) < 0.002
    assert max(seen) <= 0.010
    assert sum(seen) / len(seen) == pytest.approx(0.004, abs=0.0004)


def test_a_file_that_is_replaced_holds_from_then_on(tmp_path: Path) -> None:
    delays = distances(tmp_path)
    (tmp_path / "new").write_text(f"edge-3 80 0 {NODE}\n")
    os.replace(tmp_path / "new", delays.path)
    delays.look()
    assert delays.of(frame(ROME, NODE), relay.TARGET) == pytest.approx(0.08)


@pytest.mark.parametrize("text", ["edge-3 soon 0 10.64.1.13\n", "edge-3\n", "edge-3 1 0 x\n"])
def test_a_file_that_cannot_be_read_changes_nothing(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    delays = distances(tmp_path)
    (tmp_path / "new").write_text(text)
    os.replace(tmp_path / "new", delays.path)
    delays.look()
    assert delays.of(frame(ROME, NODE), relay.TARGET) == pytest.approx(0.0125)
    assert "cannot be read" in capsys.readouterr().err


class Changing:
    """As if somebody changed the distance before each frame."""

    def __init__(self, delays: list[float]) -> None:
        self.delays = list(delays)

    def of(self, frame: bytes, far: slice) -> float:
        return self.delays.pop(0)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), max_size=40))
def test_no_frame_of_a_flow_overtakes_whatever_the_delays(held: list[tuple[float, int]]) -> None:
    link = Link()
    way = Direction(
        link,  # type: ignore[arg-type]
        link,  # type: ignore[arg-type]
        relay.TARGET,
        Changing([delay for delay, _ in held]),  # type: ignore[arg-type]
    )
    for mark, (_, flow) in enumerate(held):
        way.hold(frame(ROME, POD, port=flow, mark=mark), now=mark / 100)
    way.let_go(now=100.0)
    assert len(link.sent) == len(held)
    for flow in range(4):
        marks = [sent[-4:] for sent in link.sent if sent[-8:-6] == struct.pack("!H", flow)]
        assert marks == sorted(marks)


def test_a_near_flow_does_not_wait_for_a_far_one(tmp_path: Path) -> None:
    link = Link()
    way = Direction(link, link, relay.TARGET, distances(tmp_path))  # type: ignore[arg-type]
    far, near = frame(ROME, "10.129.4.9"), frame(ROME, POD)
    way.hold(far, now=0.0)
    way.hold(near, now=0.0)
    way.let_go(now=0.02)
    assert link.sent == [near]
    way.let_go(now=0.26)
    assert link.sent == [near, far]
