"""Which clients get TURN credentials, when they change, and what keeps nobody out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from edgewise.api.exposure import Turn
from edgewise.api.secrets import SECRET_LABEL
from edgewise.clusters.connections import Connections
from edgewise.exposure.turn import IceServer, TurnError, password, realm_of
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.enrolment import turn_secret_in
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Members
from edgewise.sessions.hub.records import Hub
from tests.unit.sessions.hub.bindings import binding, global_session, location

SECRET = "0123456789abcdef0123456789abcdef"
URL = "turn:192.0.2.7:3478"
LIFETIME = 600


def kept(content: bytes = SECRET.encode(), label: str = "turn", revision: int = 1) -> Secret:
    secret = Secret.named("turn-porto", "edge", data={"secret": content})
    secret.metadata = ObjectMeta(
        name="turn-porto",
        namespace="edge",
        labels={SECRET_LABEL: label},
        resource_version=str(revision),
    )
    return secret


class Scene:
    """porto has a TURN server, paris has none."""

    def __init__(self, secret: Secret | None = None) -> None:
        self.now = 6_000_000.0
        self.hub = Hub(Client(Access(server="http://127.0.0.1:1")), "edge")
        self.hub_view = HubView(
            self.hub, Members(self.hub, Connections(self.hub.registry)), clock=lambda: self.now
        )
        self.hub.sessions.replace([global_session()], "1")
        porto = location(
            "porto", turn=Turn(urls=[URL], secret="turn-porto", lifetime_seconds=LIFETIME)
        )
        self.hub.locations.replace([porto, location("paris")], "1")
        self.hub.secrets.replace([secret or kept()], "1")

    def given(self, client: str = "alice", cluster: str = "porto", **how: Any) -> list[IceServer]:
        return self.hub_view.client(binding(client, cluster), **how).ice_servers


async def test_they_are_what_a_server_with_the_secret_computes() -> None:
    (given,) = Scene().given()
    assert given.urls == (URL,)
    assert given.credential == password(SECRET, given.username)
    assert given.expires_at == 6_000_000 + LIFETIME


async def test_who_has_no_seat_or_sits_where_there_is_no_turn_server_gets_none() -> None:
    scene = Scene()
    assert scene.given(cluster="") == []
    assert scene.given(cluster="paris") == []
    assert scene.given(cluster="gone") == []


async def test_who_only_looks_gets_none() -> None:
    assert Scene().given(private=False) == []


async def test_pages_of_a_session_hold_none_because_they_are_kept() -> None:
    scene = Scene()
    scene.hub.bindings.replace([binding("alice", "porto")], "1")
    session = scene.hub.session("room-1")
    assert session is not None
    assert scene.hub_view.session(session).clients_by_id["alice"].ice_servers == []


async def test_they_are_the_same_until_half_of_their_time_is_over() -> None:
    scene = Scene()
    first = scene.given()
    scene.now += LIFETIME / 2 - 1
    assert scene.given() == first
    scene.now += 1
    (renewed,) = scene.given()
    assert renewed != first[0]
    assert renewed.expires_at - scene.now == LIFETIME


@pytest.mark.parametrize("asked_after", [0, 17, 299.9, 300, 301, 4321])
async def test_at_least_half_of_their_time_is_left(asked_after: float) -> None:
    scene = Scene()
    scene.now += asked_after
    (given,) = scene.given()
    assert LIFETIME / 2 <= given.expires_at - scene.now <= LIFETIME


async def test_two_replicas_give_the_same() -> None:
    assert Scene().given() == Scene().given()


async def test_clients_of_the_same_name_in_two_sessions_are_two() -> None:
    scene = Scene()
    other = binding("alice", "porto", session="room-2", session_uid="u-2")
    assert scene.given() != scene.hub_view.client(other).ice_servers


async def test_any_client_id_can_be_in_it() -> None:
    (given,) = Scene().given(client="Zoë: one/two")
    assert given.credential == password(SECRET, given.username)


async def test_a_new_secret_counts_at_once() -> None:
    scene = Scene()
    first = scene.given()
    scene.hub.secrets.apply(kept(b"another secret of good length", revision=2), deleted=False)
    (second,) = scene.given()
    assert second.username == first[0].username
    assert second.credential == password("another secret of good length", second.username)


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (kept(label="signing-keys"), "there is no Secret 'turn-porto' with the label"),
        (kept(b"short"), "shorter than"),
        (kept(b"\xff" * 40), "is not text"),
    ],
)
async def test_what_cannot_be_used_is_said_once_and_keeps_nobody_out(
    secret: Secret, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(secret)
    with caplog.at_level(logging.INFO):
        assert scene.given() == scene.given() == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("clients in porto get no TURN credentials: ")
    assert says in line


async def test_neither_secret_nor_credential_is_ever_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        scene = Scene()
        (given,) = scene.given()
    assert SECRET not in caplog.text
    view = repr(scene.hub_view.client(binding("alice", "porto")))
    assert given.username in view
    assert given.credential not in view


def test_urls_are_checked_before_anything_is_written() -> None:
    with pytest.raises(TurnError, match="is not a TURN URL"):
        realm_of(Turn(urls=["http://192.0.2.7"], secret="turn-porto"), kept())


def test_the_line_break_at_the_end_of_a_file_is_not_part_of_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    assert turn_secret_in(file) == SECRET.encode()
    assert realm_of(Turn(urls=[URL]), kept(f"{SECRET}\n".encode())).secret == SECRET
