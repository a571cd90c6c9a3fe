"""The reference page says what the schema says."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from msgspec import Meta

from edgewise.api.crd import CrdSpec
from edgewise.api.reference import render_reference, type_of
from edgewise.api.schema import Rule, keyed_by, schema_of
from edgewise.kube.objects import Kind, Object, Record

TYPES: dict[str, tuple[Any, str]] = {
    "a range": (Annotated[int, Meta(ge=1, le=9)], "integer ≥ 1, ≤ 9"),
    "a choice": (Literal["A", "B"], "`A` or `B`"),
    "a bounded string": (Annotated[str, Meta(max_length=63)], "string, at most 63 characters"),
    "a list": (Annotated[list[str], Meta(min_length=1)], "list of string, at least 1 items"),
    "a list of bounded strings": (
        Annotated[list[Annotated[str, Meta(max_length=9)]], Meta(max_length=3)],
        "list of (string, at most 9 characters), at most 3 items",
    ),
    "a map": (dict[str, float], "map of number"),
    "an open object": (dict[str, Any], "any object"),
    "int or string": (int | str, "integer or string"),
}


@pytest.mark.parametrize("case", TYPES)
def test_a_type_in_words(case: str) -> None:
    declared, words = TYPES[case]
    assert type_of(schema_of(declared)) == words


class Port(Record):
    RULES: ClassVar = (Rule("self.number != 22", "port 22 is taken"),)

    name: str
    """A | B."""
    number: int = 80


class PearSpec(Record, kw_only=True):
    ports: Annotated[list[Port], keyed_by("name")] = []
    """Where it listens."""
    ripe: bool = True


class Pear(Object, kw_only=True):
    """Grows on trees."""

    KIND: ClassVar = Kind("fruit.example", "v1", "Pear", "pears")
    CRD: ClassVar = CrdSpec(short_names=("pr",))

    spec: PearSpec
    weights: dict[str, list[Port]] = msgspec.field(default_factory=dict)


def test_a_kind_has_a_section_with_all_its_fields_and_rules() -> None:
    page = render_reference([Pear])
    assert "## Pear\n\n`fruit.example/v1`, in a namespace; for kubectl: `pears`, `pr`." in page
    assert "Grows on trees." in page
    assert "| **`spec`** | object |  |  |" in page
    assert "| `spec.ports` | list of object |  | Where it listens. |" in page
    assert "| **`spec.ports[].name`** | string |  | A \\| B. |" in page
    assert "| `spec.ports[].number` | integer | `80` |  |" in page
    assert "| `spec.ripe` | boolean | `true` |  |" in page
    assert "| `weights{}[].number` | integer | `80` |  |" in page
    assert "metadata" not in page


def test_rules_of_list_items_are_listed() -> None:
    assert "- `spec.ports[]`: port 22 is taken" in render_reference([Pear])
