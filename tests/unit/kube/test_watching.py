"""Chunks to lines to typed changes."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.kube import errors
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.objects import Kind, Object
from edgewise.kube.watching import ChangeDecoder, LineSplitter


class Strict(Object, kw_only=True):
    KIND: ClassVar = Kind("edgewise.test", "v1", "Strict", "stricts")

    spec: dict[str, int]


def event(change: str, **content: object) -> bytes:
    return msgspec.json.encode({"type": change, "object": content})


@given(
    lines=st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))),
    cuts=st.lists(st.integers(min_value=0, max_value=200)),
)
def test_lines_come_out_whole_wherever_the_chunks_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    borders = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = LineSplitter()
    seen = []
    for start, end in pairwise(borders):
        seen += splitter.feed(stream[start:end])
    assert seen == lines


def test_an_unfinished_line_is_held_back() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"o") == []
    assert splitter.feed(b"\n") == [b"two"]


def test_a_change_is_typed() -> None:
    change = ChangeDecoder(ConfigMap).decode(
        event("MODIFIED", metadata={"name": "a", "resourceVersion": "7"}, data={"x": "1"})
    )
    assert change.type == "MODIFIED"
    assert change.object.data == {"x": "1"}
    assert change.resource_version == "7"


def test_a_bookmark_needs_none_of_the_required_fields() -> None:
    change = ChangeDecoder(Strict).decode(
        event("BOOKMARK", kind="Strict", metadata={"resourceVersion": "9"})
    )
    assert change.type == "BOOKMARK"
    assert change.resource_version == "9"


@pytest.mark.parametrize(
    "line",
    [
        event("ERROR", kind="Status", code=410, reason="Expired", message="too old"),
        msgspec.json.encode(
            {
                "object": {
                    "kind": "Status",
                    "code": 410,
                    "reason": "Expired",
                    "message": "too old",
                },
                "type": "ERROR",
            }
        ),
    ],
    ids=["as the API server writes it", "with the type last"],
)
@pytest.mark.parametrize("kind", [ConfigMap, Strict])
def test_an_error_event_is_raised(kind: type[Object], line: bytes) -> None:
    with pytest.raises(errors.Gone, match="too old"):
        ChangeDecoder(kind).decode(line)


def test_an_object_that_does_not_fit_is_named() -> None:
    with pytest.raises(errors.Undecodable, match=r"Strict ns/odd does not fit its type: .*int"):
        ChangeDecoder(Strict).decode(
            event("ADDED", metadata={"name": "odd", "namespace": "ns"}, spec={"a": "b"})
        )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'{"type":"ADDED","object":{',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}',
        b'{"type":"ADDED","object":{"data":7',
        b'{"type":"BOOKMARK","object":{"metadata":{"name":"\xff"}}}',
        b'{"type":"ERROR"',
        b'{"type":"ERROR","object":{"message":"\xff"}}',
        b'{"type":"ERROR","object":{"code":"x"}}',
        b'{"type":"NEWS","object":{}}',
    ],
)
def test_a_broken_line_is_told(line: bytes) -> None:
    with pytest.raises(errors.Undecodable, match="broken watch event"):
        ChangeDecoder(ConfigMap).decode(line)
