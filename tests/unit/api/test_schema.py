"""What each part of a type becomes in a structural schema."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from msgspec import Meta

from edgewise.api.schema import (
    Rule,
    SchemaError,
    as_one,
    as_set,
    keyed_by,
    left_open,
    rules,
    schema_of,
)
from edgewise.kube.objects import Record


class Size(StrEnum):
    SMALL = "Small"
    LARGE = "Large"


class Port(Record):
    """A port
    that is open.

    More of it.
    """

    name: str
    number: Annotated[int, Meta(ge=1, le=65535)] = 80
    """Where to
    connect."""


class Tree(Record):
    children: list[Tree] = []


class Empty(Record):
    note: str = ""


class Grace(Record):
    seconds: int = 30


class Spec(Record):
    grace: Grace = msgspec.field(default_factory=Grace)
    empty: Empty = msgspec.field(default_factory=Empty)
    size: Size = Size.SMALL
    names: list[str] = msgspec.field(default_factory=lambda: ["a"])
    count: int = 0
    flag: bool = False
    maybe: int | None = None


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "a typed map that is left open": (
        Annotated[dict[str, Port], as_one(), left_open()],
        {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-preserve-unknown-fields": True,
        },
    ),
    "a boolean": (bool, {"type": "boolean"}),
    "an integer": (int, {"type": "integer", "format": "int64"}),
    "a range": (
        Annotated[int, Meta(ge=1, lt=10)],
        {
            "type": "integer",
            "format": "int64",
            "minimum": 1,
            "maximum": 10,
            "exclusiveMaximum": True,
        },
    ),
    "a number": (
        Annotated[float, Meta(gt=0)],
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    ),
    "a string": (str, {"type": "string"}),
    "a string with bounds and a pattern": (
        Annotated[str, Meta(min_length=1, max_length=63, pattern="^[a-z]+$")],
        {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z]+$"},
    ),
    "bytes": (bytes, {"type": "string", "format": "byte"}),
    "a time": (datetime, {"type": "string", "format": "date-time"}),
    "a literal": (Literal["A", "B"], {"type": "string", "enum": ["A", "B"]}),
    "an enum, in the order of its members": (Size, {"type": "string", "enum": ["Small", "Large"]}),
    "what may be left out": (int | None, {"type": "integer", "format": "int64"}),
    "int or string": (int | str, {"x-kubernetes-int-or-string": True}),
    "anything": (Any, {"x-kubernetes-preserve-unknown-fields": True}),
    "an open object": (
        dict[str, Any],
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
    "a map": (
        Annotated[dict[str, int], Meta(max_length=3)],
        {
            "type": "object",
            "maxProperties": 3,
            "additionalProperties": {"type": "integer", "format": "int64"},
        },
    ),
    "a bounded list": (
        Annotated[list[str], Meta(min_length=1, max_length=9)],
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 9},
    ),
    "a set": (
        Annotated[list[str], as_set()],
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    ),
    "a list replaced whole": (
        Annotated[list[str], as_one()],
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
    ),
    "a map replaced whole": (
        Annotated[dict[str, str], as_one()],
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "x-kubernetes-map-type": "atomic",
        },
    ),
    "a rule on a field": (
        Annotated[str, rules(Rule("self == oldSelf", "is fixed"))],
        {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}],
        },
    ),
    "a described field": (
        Annotated[str, Meta(description="A word.")],
        {"type": "string", "description": "A word."},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_type_becomes_its_schema(case: str) -> None:
    declared, expected = CASES[case]
    assert schema_of(declared) == expected


def test_a_struct_carries_descriptions_required_fields_and_defaults() -> None:
    assert schema_of(Port) == {
        "description": "A port that is open.\n\nMore of it.",
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "number": {
                "description": "Where to connect.",
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "maximum": 65535,
                "default": 80,
            },
        },
        "required": ["name"],
    }


def test_a_keyed_list_names_its_keys() -> None:
    schema = schema_of(Annotated[list[Port], keyed_by("name")])
    assert schema["x-kubernetes-list-type"] == "map"
    assert schema["x-kubernetes-list-map-keys"] == ["name"]
    assert schema["items"]["required"] == ["name"]


def test_an_absent_part_is_filled_only_if_there_are_defaults_inside() -> None:
    properties = schema_of(Spec)["properties"]
    assert properties["grace"]["default"] == {}
    assert properties["size"]["default"] == "Small"
    assert properties["names"]["default"] == ["a"]
    defaulted = {name for name in properties if "default" in properties[name]}
    assert defaulted == {"grace", "size", "names"}


def test_rules_of_a_type_stand_on_its_schema() -> None:
    class Bounds(Record):
        RULES: ClassVar = (Rule("self.low <= self.high", "low must not be above high"),)

        low: int
        high: int

    assert schema_of(Bounds)["x-kubernetes-validations"] == [
        {"rule": "self.low <= self.high", "message": "low must not be above high"}
    ]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("self.low <= self.high", "reads low, which may be left out"),
        ("self.lowest <= self.high", "reads lowest, which is not there"),
        ("!has(self.low) || self.low <= self.high", None),
    ],
)
def test_a_rule_that_would_trip_over_an_absent_field_is_refused(
    rule: str, sentence: str | None
) -> None:
    class Bounds(Record):
        RULES: ClassVar = (Rule(rule),)

        low: int = 0
        high: int = 5

    if sentence is None:
        assert schema_of(Bounds)["x-kubernetes-validations"] == [{"rule": rule}]
    else:
        with pytest.raises(SchemaError, match=sentence):
            schema_of(Bounds)


def test_a_required_field_that_may_be_null_is_nullable() -> None:
    class Holder(Record):
        value: int | None

    assert schema_of(Holder)["properties"]["value"]["nullable"] is True


def test_a_part_can_be_kept_free_of_defaults() -> None:
    class Whole(Record):
        spec: Port
        status: Port | None = None

    properties = schema_of(Whole, no_defaults_at="$.status")["properties"]
    assert "default" in properties["spec"]["properties"]["number"]
    assert "default" not in properties["status"]["properties"]["number"]


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (int | list[str], r"\$: a choice of types"),
        (dict[int, str], "keys of a map must be strings"),
        (Literal[1, 2], "an enum in a CRD is one of strings"),
        (Tree, r"\$\.children\[\]: Tree contains itself"),
        (set[str], "SetType has no form"),
    ],
)
def test_what_has_no_form_in_a_crd_is_refused_with_its_place(declared: Any, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        schema_of(declared)
