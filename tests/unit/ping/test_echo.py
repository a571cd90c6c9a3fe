"""The datagram rules: same size, no answer to answers, silence for all else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.agents.ping.agent import BadAddress, parse_address
from edgewise.agents.ping.echo import ANSWER, QUESTION, SIZE, answer_to
from edgewise.client import probe
from edgewise.runtime.listening.callers import caller


def test_a_question_is_answered_with_its_own_bytes() -> None:
    question = QUESTION + bytes(range(27))
    assert answer_to(question) == ANSWER + bytes(range(27))


def test_an_answer_is_never_answered() -> None:
    answer = answer_to(QUESTION + bytes(27))
    assert answer is not None
    assert answer_to(answer) is None


@given(st.binary(max_size=100))
def test_no_datagram_gets_a_longer_answer(datagram: bytes) -> None:
    answer = answer_to(datagram)
    assert answer is None or len(answer) == len(datagram) == SIZE


@given(st.binary(min_size=0, max_size=64))
def test_only_the_exact_size_is_a_question(rest: bytes) -> None:
    assert (answer_to(QUESTION + rest) is not None) == (len(rest) == 27)


def test_the_sdk_speaks_the_same_datagram() -> None:
    assert (probe.QUESTION, probe.ANSWER, probe.SIZE) == (QUESTION, ANSWER, SIZE)


@pytest.mark.parametrize(
    ("address", "who"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not-an-address", "not-an-address"),
    ],
)
def test_who_a_caller_is(address: str, who: str) -> None:
    assert caller(address) == who


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:80", "127.0.0.1", 80), (":7", "0.0.0.0", 7), ("[::1]:9", "::1", 9)],  # noqa: S104
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert (address.host, address.port) == (host, port)


@pytest.mark.parametrize("text", ["", "80", "host", "host:", "host:port", "h:70000", "h:-1", "h:²"])
def test_bad_addresses_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadAddress, match="write it as"):
        parse_address(text)
