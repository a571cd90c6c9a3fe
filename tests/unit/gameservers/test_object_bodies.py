"""What the routes of the first implementation read from bodies."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.server.routes.games.objects import Deletion


@pytest.mark.parametrize("name", ["one\n", "one/status", "..", "One", "-one", "", "o" * 64])
def test_a_name_that_enters_a_path_is_a_name_to_its_last_character(name: str) -> None:
    body = msgspec.json.encode({"metadata": {"name": name}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=Deletion)


def test_a_name_is_taken() -> None:
    body = msgspec.json.encode({"metadata": {"name": "one-1"}, "force": True})
    assert msgspec.json.decode(body, type=Deletion).metadata.name == "one-1"
