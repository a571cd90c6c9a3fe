"""Plain progress: enough to see that it goes on, not so much that a log drowns."""

import pytest

from edgewise.cli.progress import QUIET, PlainLines


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_every_change_of_state_is_a_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = PlainLines(clock)
    progress("etcd 3.6.8", "building")
    clock.now += 61
    progress("etcd 3.6.8", "built in 61 s")
    assert said(capsys) == ["[    0 s] etcd 3.6.8: building", "[   61 s] etcd 3.6.8: built in 61 s"]


def test_a_counter_is_shown_only_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = PlainLines(clock)
    for number in range(200):
        progress("etcd", f"compiling packages ({number})")
        clock.now += QUIET / 100
    assert len(said(capsys)) == 2


def test_subjects_do_not_hush_each_other(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = PlainLines(clock)
    progress("node-1", "importing")
    progress("node-2", "importing")
    assert len(said(capsys)) == 2
