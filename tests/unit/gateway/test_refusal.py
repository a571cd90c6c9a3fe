"""Which routes are never served."""

import msgspec
import pytest

from edgewise.agents.gateway.refusal import refusal
from edgewise.agents.gateway.settings import Ports, Settings, SettingsError
from edgewise.exposure.route import Route

GOOD = Route("seat-a", "web", "HTTP", 0, "10.1.2.3", 8080)
GOOD_UDP = Route("seat-a", "game", "UDP", 20001, "10.1.2.3", 7777)
SETTINGS = Settings(domain="play.example.org", host_port=8081)


@pytest.mark.parametrize(
    "route",
    [
        GOOD,
        GOOD_UDP,
        msgspec.structs.replace(GOOD, address="fd00::7"),
        msgspec.structs.replace(GOOD, token_sha256="0" * 64),
        msgspec.structs.replace(GOOD, hostname="seat-a.play.example.org"),
        msgspec.structs.replace(GOOD, hostname="web-seat-a.play.example.org"),
    ],
)
def test_a_sound_route_is_served(route):
    assert refusal(route, SETTINGS) == ""


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("seat", {"seat": ""}),
        ("seat", {"seat": "a/b"}),
        ("seat", {"seat": "a.*"}),
        ("seat", {"seat": "seat-A"}),
        ("seat", {"seat": "x" * 64}),
        ("seat", {"seat": "ok\n"}),
        ("port name", {"port_name": "web/../x"}),
        ("port name", {"port_name": ""}),
        ("target port", {"target_port": 0}),
        ("target port", {"target_port": 65536}),
        ("token_sha256", {"token_sha256": "secret"}),
        ("token_sha256", {"token_sha256": "A" * 64}),
        ("address", {"address": ""}),
        ("address", {"address": "pod.example.org"}),
        ("address", {"address": "10.1.2.3%1"}),
        ("address", {"address": "127.0.0.1"}),
        ("address", {"address": "::1"}),
        ("address", {"address": "::ffff:127.0.0.1"}),
        ("address", {"address": "169.254.169.254"}),
        ("address", {"address": "fe80::1"}),
        ("address", {"address": "0.0.0.0"}),  # noqa: S104
        ("address", {"address": "224.0.0.1"}),
        ("address", {"address": "010.1.2.3"}),
        ("listen port", {"listen_port": 80}),
        ("hostname", {"hostname": "seat-b.play.example.org"}),
        ("hostname", {"hostname": "seat-a.example.org"}),
        ("hostname", {"hostname": "x.seat-a.play.example.org"}),
        ("hostname", {"hostname": "*-seat-a.play.example.org"}),
    ],
)
def test_an_unsound_route_is_refused_by_a_sentence_that_names_the_field(what, change):
    assert what in refusal(msgspec.structs.replace(GOOD, **change), SETTINGS)


@pytest.mark.parametrize("port", [0, 19999, 32768, 8080])
def test_a_port_outside_of_the_range_is_refused(port):
    assert "range" in refusal(msgspec.structs.replace(GOOD_UDP, listen_port=port), SETTINGS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bind": "somewhere"}, "not an IP address"),
        ({"http_port": 0}, "http port"),
        ({"http_port": 20000}, "in the range for seats"),
        ({"domain": "x.org"}, "belong together"),
        ({"host_port": 8081}, "belong together"),
        ({"domain": "X.org", "host_port": 8081}, "lower-case"),
        ({"domain": "x.org", "host_port": 8080}, "port of its own"),
        ({"trusted_hops": -1}, "trusted hops"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, says):
    with pytest.raises(SettingsError, match=says):
        Settings(**change)


@pytest.mark.parametrize("text", ["", "1", "20-10", "0-5", "1-70000", "a-b", "1-2-3"])
def test_ranges_that_are_none_are_refused(text):
    with pytest.raises(SettingsError, match="ports"):
        Ports.parse(text)


def test_a_range_includes_both_ends():
    ports = Ports.parse("20000-20002")
    assert [port for port in range(19999, 20004) if port in ports] == [20000, 20001, 20002]
