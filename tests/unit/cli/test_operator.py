"""`edgewise operator`: what it is told is checked before it starts."""

import pytest

from edgewise.cli.operator import host_in
from edgewise.operator import OperatorError


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://edge.example", "edge.example"),
        ("http://[2001:db8::7]:8080/rooms", "2001:db8::7"),
        ("", ""),
    ],
)
def test_the_ports_are_at_the_host_of_the_url(url, host):
    assert host_in(url) == host


@pytest.mark.parametrize("url", ["edge.example", "ftp://edge.example", "http://", "http://[x"])
def test_a_url_that_no_client_can_use_is_refused_with_a_sentence(url):
    with pytest.raises(OperatorError, match=r"--public-url must be http\(s\)://HOST"):
        host_in(url)
