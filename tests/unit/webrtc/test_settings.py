"""The server's environment, and what the client's command line accepts."""

import json
from pathlib import Path

import pytest
from webrtc_detector import client
from webrtc_detector.ice import Turn, candidates, configuration
from webrtc_detector.settings import SettingsError, from_environment

TURN = {"TURN_URLS": "turn:192.0.2.7:3478", "TURN_USERNAME": "9:a", "TURN_PASSWORD": "hush"}


def test_without_turn_the_server_uses_its_own_addresses() -> None:
    settings = from_environment({})
    assert settings.turn is None
    assert (settings.port, settings.max_clients) == (8080, 1)
    made = configuration(settings.turn)
    assert made.iceServers == []  # None would mean a public STUN server
    assert made.iceTransportPolicy.value == "all"


def test_with_turn_the_server_is_relay_only() -> None:
    settings = from_environment(TURN)
    assert settings.turn == Turn(["turn:192.0.2.7:3478"], "9:a", "hush")
    assert configuration(settings.turn).iceTransportPolicy.value == "relay"


def test_turn_urls_alone_leave_the_credentials_to_the_client() -> None:
    settings = from_environment({"TURN_URLS": "turn:a:1, turns:b:2?transport=tcp"})
    assert settings.turn is None
    assert settings.turn_urls == ["turn:a:1", "turns:b:2?transport=tcp"]


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"PORT": "http"}, "PORT must be a whole number"),
        ({"PORT": "0"}, "PORT must be a whole number"),
        ({"MAX_CLIENTS": "-1"}, "MAX_CLIENTS must be"),
        ({"TURN_URLS": "192.0.2.7:3478"}, "TURN_URLS: .* is not a TURN URL"),
        ({"TURN_USERNAME": "a", "TURN_URLS": "turn:a"}, "belong together"),
        ({"TURN_USERNAME": "a", "TURN_PASSWORD": "b"}, "TURN_URLS is not"),
    ],
)
def test_settings_that_cannot_work_are_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        from_environment(environment)


def test_passwords_are_not_shown_by_repr() -> None:
    assert "hush" not in repr(from_environment(TURN))


def test_types_of_candidates() -> None:
    sdp = (
        "a=candidate:1 1 udp 2130706431 192.0.2.1 5000 typ host\r\n"
        "a=candidate:2 1 udp 16777215 192.0.2.7 6000 typ relay raddr 0.0.0.0 rport 9\r\n"
    )
    assert candidates(sdp) == ["host", "relay"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "either the server's URL, or --targets"),
        (["http://h", "--targets", "x"], "either the server's URL, or --targets"),
        (["ftp://h"], "is not the URL of a server"),
        (["http://h", "--size", "big"], "--size must look like"),
        (["http://h", "--size", "641x360"], "--size must be even"),
        (["http://h", "--size", "2x2"], "--size must be between"),
        (["http://h", "--rate", "0"], "--rate goes up to"),
        (["http://h", "--turn", "turn:h"], "TURN_PASSWORD in the environment"),
        (["--targets", "/nowhere.json"], "--targets: "),
    ],
)
def test_the_client_refuses_with_one_sentence(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TURN_USERNAME", raising=False)
    monkeypatch.delenv("TURN_PASSWORD", raising=False)
    assert client.main(arguments) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert len(told.err.splitlines()) == 1
    assert told.out == ""


def test_targets_are_read_as_browsers_write_ice_servers(tmp_path: Path) -> None:
    ice = {"urls": ["turn:192.0.2.7:3478"], "username": "9:a", "credential": "hush"}
    file = tmp_path / "targets.json"
    file.write_text(json.dumps([{"url": "http://h/s/1", "client": "a", "iceServers": [ice]}]))
    (target,) = client.targets(client.parse(["--targets", str(file)]))
    assert target.ice_servers == [Turn(["turn:192.0.2.7:3478"], "9:a", "hush")]
