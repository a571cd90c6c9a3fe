"""Who gets a place at a listener, and who makes room."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from edgewise.runtime.listening.places import Places


class Caller:
    def __init__(self, address: str, trusted: bool = False) -> None:
        self.address = address
        self.trusted = trusted


def places(most: int = 8, per_address: int = 4, waiting: int = 3) -> Places[Caller]:
    return Places(most, per_address, waiting)


def enter(at: Places[Caller], address: str, *, trusted: bool = False) -> Caller:
    caller = Caller(address, trusted)
    assert at.enter(caller).admitted
    return caller


def served(at: Places[Caller], address: str, *, trusted: bool = False) -> Caller:
    caller = enter(at, address, trusted=trusted)
    at.settles(caller)
    return caller


def test_whoever_has_waited_longest_makes_room_for_a_newcomer() -> None:
    at = places()
    first, *_ = [enter(at, "a") for _ in range(3)]
    entry = at.enter(Caller("a"))
    assert (entry.admitted, entry.makes_room) == (True, first)
    assert at.waiting == 3


def test_the_address_with_the_most_who_wait_makes_room() -> None:
    at = places()
    quiet, busy, _ = enter(at, "quiet"), enter(at, "busy"), enter(at, "busy")
    assert at.enter(Caller("new")).makes_room is busy
    assert quiet is not busy


def test_an_address_has_its_share_and_no_more() -> None:
    at = places(waiting=8)
    for _ in range(4):
        served(at, "a")
    assert not at.enter(Caller("a")).admitted, "all of its connections are being served"
    assert at.enter(Caller("b")).admitted


def test_within_an_address_those_who_wait_make_room_for_newcomers() -> None:
    at = places(waiting=8)
    waits = enter(at, "a")
    for _ in range(3):
        served(at, "a")
    assert at.enter(Caller("a")).makes_room is waits


def test_the_share_of_one_address_does_not_hold_for_a_trusted_proxy() -> None:
    at = places(waiting=8)
    for _ in range(8):
        served(at, "proxy", trusted=True)
    assert len(at) == 8


def test_where_all_are_served_the_address_with_the_most_gives_up_the_one_it_used_least() -> None:
    at = places(most=4)
    first, second, _, _ = [served(at, "a") for _ in range(4)]
    at.settles(first)  # it asks again
    assert at.enter(Caller("kubelet")).makes_room is second


def test_nobody_makes_room_for_an_address_that_has_as_many_itself() -> None:
    at = places(most=4)
    for address in ("a", "b", "c", "d"):
        served(at, address)
    assert not at.enter(Caller("e")).admitted


def test_a_trusted_proxy_gives_up_nobody_who_is_served() -> None:
    at = places(most=4)
    for _ in range(4):
        served(at, "proxy", trusted=True)
    assert not at.enter(Caller("b")).admitted


def test_whoever_begins_another_request_and_does_not_end_it_waits_again() -> None:
    at = places()
    first = served(at, "a")
    others = [enter(at, "b") for _ in range(3)]
    assert at.waits(first) is others[0]
    assert at.waits(first) is None, "it waits already"


class Step(msgspec.Struct, frozen=True):
    do: str
    address: str
    which: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["enter", "waits", "settles", "leave"]),
        st.sampled_from("abc"),
        st.integers(0, 20),
    ),
    max_size=60,
)


@given(steps)
def test_the_bounds_hold_and_nothing_is_left_behind(history: list[Step]) -> None:
    at, here = places(), list[Caller]()
    for step in history:
        if step.do == "enter":
            caller = Caller(step.address)
            entry = at.enter(caller)
            if entry.makes_room is not None:
                here.remove(entry.makes_room)
            if entry.admitted:
                here.append(caller)
        elif here:
            caller = here[step.which % len(here)]
            if step.do == "leave":
                here.remove(caller)
                at.leave(caller)
            elif step.do == "settles":
                at.settles(caller)
            elif (goes := at.waits(caller)) is not None:
                here.remove(goes)
        assert len(at) == len(here) <= 8
        assert at.waiting <= 3
        assert all(sum(c.address == a for c in here) <= 4 for a in "abc")
    for caller in here:
        at.leave(caller)
    assert (len(at), at.waiting, at.longest_waiting()) == (0, 0, None)
