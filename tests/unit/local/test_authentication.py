"""A file that would keep the API server from starting is refused with a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgewise.local.control_plane.authentication import LARGEST, read_authentication
from edgewise.local.errors import BadSpec
from edgewise.testing.issuer import Issuer

GOOD = Issuer("https://issuer.example", "").configuration()


def changed(**issuer: Any) -> dict[str, Any]:
    [one] = GOOD["jwt"]
    return {**GOOD, "jwt": [{**one, **issuer}]}


BAD: dict[str, tuple[Any, str]] = {
    "something else": ({"kind": "Pod"}, "is no AuthenticationConfiguration"),
    "no mapping at all": ("hello", "is no AuthenticationConfiguration"),
    "no issuer": ({**GOOD, "jwt": []}, "jwt must list"),
    "an issuer without TLS": (
        changed(issuer={"url": "http://issuer.example", "audiences": ["a"]}),
        r"jwt\[0\].issuer.url must begin with https://",
    ),
    "nobody it is for": (changed(issuer={"url": "https://a.example"}), "audiences"),
    "no name": (changed(claimMappings={}), "username.claim"),
    "no prefix": (
        changed(claimMappings={"username": {"claim": "sub", "prefix": ""}}),
        "prefix must not be empty",
    ),
}


def test_a_good_one_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "auth.yaml"
    file.write_text(json.dumps(GOOD))
    assert json.loads(read_authentication(file)) == GOOD


@pytest.mark.parametrize("case", BAD)
def test_a_bad_one_is_refused(tmp_path: Path, case: str) -> None:
    document, says = BAD[case]
    file = tmp_path / "auth.yaml"
    file.write_text(json.dumps(document))
    with pytest.raises(BadSpec, match=says):
        read_authentication(file)


@pytest.mark.parametrize("content", [b"\xff", b"a: [", b" " * (LARGEST + 1)])
def test_what_is_no_text_or_too_much_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "auth.yaml"
    file.write_bytes(content)
    with pytest.raises(BadSpec, match=r"auth\.yaml"):
        read_authentication(file)
    with pytest.raises(BadSpec, match="cannot be read"):
        read_authentication(tmp_path / "none")
