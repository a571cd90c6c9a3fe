"""A moment that the API server stores can be read: one object that cannot is set aside, and a
hundred of them stop everybody's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest

from edgewise.api.crd import object_schema
from edgewise.kube.objects import Object
from edgewise.tenancy.domain import TENANCY

GOOD = [
    "2030-01-31T12:00:00Z",
    "2030-01-31t12:00:00z",
    "2030-01-31T12:00:00.5+05:30",
    "2030-01-31T12:00:00-23:59",
    "9999-12-31T23:59:59.999999Z",
]
# The API server's format date-time lets these in; so does CEL's timestamp(), those with a comma
# and with offsets of a day or an hour of 60 minutes.
UNREADABLE = [
    "2030-01-31T12:00:00,5Z",
    "2030-01-31T12:00:00x5Z",
    "2030-01-31T12:00:00+24:00",
    "2030-01-31T12:00:00+05:60",
    "2030-01-31T12:00:00+99:99",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
]


def moments(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if schema.get("format") == "date-time":
        yield schema
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[each] for each in ("items", "additionalProperties") if each in schema]
    for each in inner:
        if isinstance(each, dict):
            yield from moments(each)


def written_by_people(kind: type[Object]) -> list[dict[str, Any]]:
    return [*moments(object_schema(kind)["properties"].get("spec", {}))]


KINDS = [kind for kind in TENANCY.kinds if written_by_people(kind)]


def test_there_are_kinds_with_moments() -> None:
    names = {kind.KIND.kind for kind in KINDS}
    assert {"SubNamespace", "SliceClaim", "RoleRequest", "ClusterRoleRequest"} <= names


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND.kind)
def test_what_cannot_be_read_is_not_stored(kind: type[Object]) -> None:
    for schema in written_by_people(kind):
        pattern = re.compile(schema.get("pattern", ""))
        assert not [text for text in UNREADABLE if pattern.search(text)]
        assert [text for text in GOOD if pattern.search(text)] == GOOD


@pytest.mark.parametrize("text", GOOD)
def test_what_is_stored_can_be_read(text: str) -> None:
    assert msgspec.convert(text, datetime).tzinfo is not None


@pytest.mark.parametrize("text", UNREADABLE)
def test_the_others_could_not(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, datetime)
