"""A cluster without our kinds gets a sentence of its own."""

from __future__ import annotations

import pytest

from edgewise.cli.missing_kinds import KindsMissing, known_kinds
from edgewise.kube.errors import NotFound, error_from_response


def test_a_path_that_the_api_server_does_not_have_is_a_kind_that_is_missing() -> None:
    with (
        pytest.raises(KindsMissing, match=r"https://edge does not know tenants: install them"),
        known_kinds("tenants", "https://edge"),
    ):
        raise error_from_response(404, b"404 page not found\n")


def test_an_object_that_is_not_there_is_something_else() -> None:
    with pytest.raises(NotFound, match="acme"), known_kinds("tenants", "https://edge"):
        raise NotFound(404, "NotFound", 'tenants "acme" not found', {"name": "acme"})
