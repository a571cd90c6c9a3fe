"""The socket that the API is served on."""

from __future__ import annotations

import socket

from edgewise.server.http.serving import Listen, _bind


def test_answers_are_not_held_back_until_the_client_confirms_their_beginning() -> None:
    with _bind(Listen(port=0)) as listener:
        client = socket.create_connection(listener.getsockname())
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
