"""What enters a path or a selector is a name, and selects nothing else."""

from __future__ import annotations

import pytest

from edgewise.kube.discovery import Discovery
from edgewise.kube.documents import decode, decode_as, decode_list
from edgewise.kube.errors import Invalid, Undecodable, error_from_response
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.paths import collection_path, object_path
from edgewise.kube.selectors import is_name, label_is, name_is
from edgewise.kube.watching import ChangeDecoder

NO_NAMES = [
    "",
    "=hello",
    "hello,metadata.name=hello",
    "hello\n",
    "a b",
    "Hello",
    "../../x",
    "-a",
    "a" * 254,
]


@pytest.mark.parametrize("name", ["hello", "hello-2", "my.template", "a" * 253])
def test_a_name_selects_one_object(name: str) -> None:
    assert is_name(name)
    assert name_is(name) == f"metadata.name={name}"


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_selects_nothing(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(Invalid, match="cannot be a name"):
        name_is(name)


def test_values_of_labels() -> None:
    assert label_is("app", "Web_1.x") == "app=Web_1.x"
    assert label_is("app", "") == "app="
    for value in ("a,b=c", "a b", "a)", "=a", "a" * 64, "a\n"):
        with pytest.raises(Invalid, match="value of a label"):
            label_is("app", value)


@pytest.mark.parametrize("name", ["..", ".", "../../x", "a/b", "a%2fb"])
def test_no_name_leads_elsewhere(name: str) -> None:
    with pytest.raises(Invalid):
        object_path(ConfigMap.KIND, "ns", name)
    with pytest.raises(Invalid):
        object_path(ConfigMap.KIND, name, "a")
    with pytest.raises(Invalid):
        collection_path(ConfigMap.KIND, name)


@pytest.mark.parametrize("version", ["../../x", "v1?watch=true", "apps/v1/../..", "", "v1\n"])
async def test_an_api_version_leads_nowhere_else(version: str) -> None:
    async def request(method: str, path: str) -> bytes:
        pytest.fail(f"asked for {method} {path}")

    with pytest.raises(Invalid, match="cannot be an apiVersion"):
        await Discovery(request).kind_of(version, "Pod")


DEEP = b'{"metadata":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"


def test_what_is_nested_too_deep_breaks_no_answer() -> None:
    """Objects are read without what lies too deep (test_shallow.py); anything else is told."""
    assert decode(ConfigMap, DEEP).metadata.name == ""
    assert len(decode_list(ConfigMap, b'{"items":[' + DEEP + b"]}").items) == 1
    assert ChangeDecoder(ConfigMap).decode(b'{"type":"ADDED","object":' + DEEP + b"}") is not None
    with pytest.raises(Undecodable):
        decode_as(dict, DEEP)
    assert error_from_response(500, DEEP).status == 500
