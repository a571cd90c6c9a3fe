"""The book of heartbeats: small, and read back as it was written."""

from hypothesis import given
from hypothesis import strategies as st

from edgewise.runtime.heartbeats.encoding import (
    ENTRY,
    MOST_ENTRIES,
    mark,
    read_heartbeats,
    write_heartbeats,
)


def test_who_was_heard_and_when() -> None:
    heard = {mark("a"): 100.0, mark("b"): 96.4, mark("c"): 50.0}
    book = dict(read_heartbeats(write_heartbeats(heard, now=100.0, window=9)))
    assert book == {mark("a"): 0.0, mark("b"): 4.0}


def test_marks_differ() -> None:
    assert len({mark(f"room-1-{n}") for n in range(10_000)}) == 10_000


def test_ten_thousand_clients_are_small() -> None:
    heard = {mark(str(n)): 0.0 for n in range(10_000)}
    assert len(write_heartbeats(heard, 0.0, 9)) == 90_000


def test_a_full_book_keeps_the_latest() -> None:
    heard = {mark(str(n)): float(n) for n in range(MOST_ENTRIES + 10)}
    book = write_heartbeats(heard, now=float(MOST_ENTRIES + 10), window=1e9)
    assert len(book) == MOST_ENTRIES * ENTRY
    kept = {who for who, _ in read_heartbeats(book)}
    assert mark(str(MOST_ENTRIES + 9)) in kept
    assert mark("0") not in kept


@given(st.binary(max_size=100))
def test_rubbish_does_not_break_the_reader(content: bytes) -> None:
    assert len(list(read_heartbeats(content))) == len(content) // ENTRY
