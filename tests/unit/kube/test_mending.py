"""An object that somebody broke by hand does not keep the others from being read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewise.api.sessions import Session
from edgewise.kube.documents import decode, decode_list
from edgewise.kube.errors import Undecodable
from edgewise.kube.kinds.core import Pod
from edgewise.kube.watching import ChangeDecoder

GOOD: dict[str, Any] = {"metadata": {"name": "good"}, "spec": {"templateRef": {"name": "t"}}}
BROKEN: dict[str, Any] = {
    "metadata": {"name": "broken", "uid": "1"},
    "spec": {"templateRef": {"name": "t"}, "clients": {"ann": {"connected": True}}},
    "status": {"clients": {"ann": 7}},
}


def test_a_session_with_a_broken_status_is_read_without_it() -> None:
    session = decode(Session, json.dumps(BROKEN).encode())
    assert session.spec.clients == {"ann": {"connected": True}}
    assert session.metadata.uid == "1"
    assert session.status.clients == {}


def test_the_others_of_its_list_are_read_too() -> None:
    listing = decode_list(
        Session,
        json.dumps({"metadata": {"resourceVersion": "9"}, "items": [GOOD, BROKEN]}).encode(),
    )
    assert [each.metadata.name for each in listing.items] == ["good", "broken"]
    assert listing.resource_version == "9"


def test_its_changes_are_seen() -> None:
    line = json.dumps({"type": "MODIFIED", "object": BROKEN}).encode()
    change = ChangeDecoder(Session).decode(line)
    assert (change.type, change.object.metadata.name) == ("MODIFIED", "broken")


@pytest.mark.parametrize("kind", [Session, Pod])
def test_what_cannot_be_mended_is_named(kind: type[Session] | type[Pod]) -> None:
    hopeless = {"metadata": {"name": "odd", "labels": 7}, "spec": {}}
    with pytest.raises(Undecodable, match="odd does not fit its type"):
        decode(kind, json.dumps(hopeless).encode())


@pytest.mark.parametrize(
    "content",
    [
        b'{"metadata":{"name":"\xff"}}',
        b'{"metadata":{"name":"odd","labels":7},"spec":{"x":"\xff"}}',
        b'{"metadata":{"name":7,"x":"\xff"}}',
    ],
)
@pytest.mark.parametrize("kind", [Session, Pod])
def test_text_that_is_not_in_utf8_is_told(kind: type[Session] | type[Pod], content: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(kind, content)
    with pytest.raises(Undecodable):
        decode_list(kind, b'{"items":[%s]}' % content)


def test_a_list_that_breaks_off_after_what_does_not_fit_is_told() -> None:
    with pytest.raises(Undecodable, match="the list of pods does not fit"):
        decode_list(Pod, b'{"items":[{"metadata":7')
