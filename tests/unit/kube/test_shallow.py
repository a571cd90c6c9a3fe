"""What lies too deep is cut off, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.documents import decode, decode_list
from edgewise.kube.shallow import is_deep, shallow
from edgewise.kube.watching import ChangeDecoder
from edgewise.sessions.raw_session import RawSession

DEEP = '{"a":' * 5000 + "1" + "}" * 5000
GOOD = '{"metadata":{"name":"good"},"spec":{"templateRef":{"name":"t"}}}'
BAD = (
    '{"metadata":{"name":"bad"},"spec":{"templateRef":{"name":"t"},'
    f'"clients":{{"ann":{{"connected":true,"x":{DEEP}}}}}}}}}'
)


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ('{"a":{"b":{"c":1}}}', 2, '{"a":{"b":null}}'),
        ('{"a":[[1],[2]],"b":3}', 2, '{"a":[null,null],"b":3}'),
        ('{"a":{"b":1}}', 2, '{"a":{"b":1}}'),
        (r'{"a":{"{[\"":{}}}', 2, r'{"a":{"{[\"":null}}'),
        ("7", 1, "7"),
    ],
)
def test_it_reads(text: str, most: int, expected: str) -> None:
    assert shallow(text.encode(), most).decode() == expected


nested: Any = st.recursive(
    st.none() | st.integers(0, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


def cut(value: Any, most: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if most == 0:
        return None
    if isinstance(value, dict):
        return {name: cut(part, most - 1) for name, part in value.items()}
    return [cut(part, most - 1) for part in value]


@given(value=nested, most=st.integers(1, 4))
def test_it_cuts_what_a_plain_walk_would_cut(value: Any, most: int) -> None:
    text = json.dumps(value).encode()
    assert msgspec.json.decode(shallow(text, most)) == cut(value, most)
    assert is_deep(value, most) == (cut(value, most) != value)


@pytest.mark.parametrize("kind", [Session, RawSession])
def test_a_deep_object_does_not_keep_the_others_from_being_read(kind: Any) -> None:
    listing = decode_list(kind, f'{{"items":[{GOOD},{BAD}]}}'.encode())
    assert [each.metadata.name for each in listing.items] == ["good", "bad"]
    change = ChangeDecoder(kind).decode(f'{{"type":"ADDED","object":{BAD}}}'.encode())
    assert change.object.metadata.name == "bad"
    assert decode(kind, BAD.encode()).metadata.name == "bad"


def test_what_is_kept_as_text_can_be_read_later() -> None:
    found = decode(RawSession, BAD.encode())
    assert found.template == "t"
    assert found.in_use


def test_the_same_holds_for_templates() -> None:
    pod = f'{{"name":"main","template":{DEEP}}}'
    template = f'{{"metadata":{{"name":"t"}},"spec":{{"podTemplates":[{pod}]}}}}'
    assert decode(SessionTemplate, template.encode()).spec.pod_templates[0].name == "main"
