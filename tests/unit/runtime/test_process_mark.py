"""Who is certainly dead, and of whom nobody can say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from edgewise.runtime.leading.process_mark import is_dead, own_mark

TELL = """
from edgewise.runtime.leading.process_mark import own_mark

print(own_mark(), flush=True)
input()
"""


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", TELL], stdin=pipe, stdout=pipe, text=True) as one:
        yield one
        one.kill()


def test_a_process_is_dead_from_its_end_on(other: subprocess.Popen[str]) -> None:
    assert other.stdout is not None
    mark = other.stdout.readline().strip()
    assert mark
    assert not is_dead(mark)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, and not collected yet
    assert is_dead(mark)
    other.wait()
    assert is_dead(mark)


def test_this_process_lives() -> None:
    assert own_mark()
    assert not is_dead(own_mark())


def test_a_number_that_somebody_else_has_now_is_of_one_that_is_dead() -> None:
    place, _, started = own_mark().rpartition("/")
    assert is_dead(f"{place}/{int(started) - 1}")


def test_of_other_machines_and_of_nonsense_nobody_can_say() -> None:
    host, boot, namespace, _, started = own_mark().split("/")
    nobody = "4194304"  # more than any system has
    assert is_dead("/".join((host, boot, namespace, nobody, started)))
    for mark in (
        f"elsewhere/{boot}/{namespace}/{nobody}/{started}",
        f"{host}/another-boot/{namespace}/{nobody}/{started}",
        f"{host}/{boot}/pid:[1]/{nobody}/{started}",
        f"{host}/{boot}/{namespace}/-1/{started}",
        f"{host}/{boot}/{namespace}/{10**30}/{started}",
        "",
        "/",
        "nonsense",
    ):
        assert not is_dead(mark), mark
