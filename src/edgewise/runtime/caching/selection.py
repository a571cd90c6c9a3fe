"""Which objects of a kind somebody wants: a namespace, a label and a field selector.

The API server does the selecting. The same rules are evaluated here for one reason:
an object that we have just written is put into the caches at once, and only into those
that the API server would have put it into.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.objects import Object

Requirement = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<verb>in|notin)\s*\((?P<values>[^)]*)\)$")
_COMPARE = re.compile(r"^(?P<key>[^\s=!<>,()]+)\s*(?P<verb>[<>])\s*(?P<value>[0-9]+)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!<>]+)\s*(?P<verb>==|=|!=)\s*(?P<value>[^\s=!]*)$")
_EXISTS = re.compile(r"^(?P<absent>!?)\s*(?P<key>[^\s=!<>,()]+)$")
# Commas also separate the values of `in (a, b)`; those are no ends of a requirement.
_COMMA = re.compile(r",(?![^(]*\))")


class SelectorError(ReadableError, ValueError):
    """A selector that cannot be understood, with what is wrong about it."""


class Selection(msgspec.Struct, frozen=True):
    """What of a kind is selected; with nothing set, everything is."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        parts = (self.namespace or "", self.labels, self.fields)
        return f"[{' '.join(filter(None, parts))}]" if any(parts) else ""

    def matcher(self) -> Callable[[Object], bool]:
        """A function that says whether an object is selected."""
        requirements = parse_labels(self.labels)
        fields = parse_fields(self.fields)
        namespace = self.namespace

        def matches(obj: Object) -> bool:
            if namespace is not None and obj.metadata.namespace != namespace:
                return False
            labels = obj.metadata.labels
            if not all(met(labels) for met in requirements):
                return False
            return all((read(obj, path) == value) is wanted for path, value, wanted in fields)

        return matches


def parse_labels(selector: str) -> list[Requirement]:
    """The requirements of a label selector, as kubectl and the API server read it."""
    if not selector.strip():
        return []
    return [_requirement(part.strip()) for part in _COMMA.split(selector)]


def _requirement(text: str) -> Requirement:
    if found := _SET.match(text):
        key, wanted = found["key"], found["verb"] == "in"
        values = frozenset(value.strip() for value in found["values"].split(","))
        # `notin` also selects what does not have the label at all.
        return lambda labels: (labels[key] in values) is wanted if key in labels else not wanted
    if found := _EQUAL.match(text):
        key, value, equal = found["key"], found["value"], found["verb"] != "!="
        return lambda labels: (labels.get(key) == value) is equal
    if found := _COMPARE.match(text):
        key, limit, above = found["key"], _integer(found["value"]), found["verb"] == ">"
        if limit is not None:
            return lambda labels: _lies_beyond(limit, _integer(labels.get(key, "")), above)
    if found := _EXISTS.match(text):
        key, present = found["key"], not found["absent"]
        return lambda labels: (key in labels) is present
    raise SelectorError(
        f"the label selector has a part that cannot be read: {text!r}; "
        "write it like 'app=web', 'tier in (a, b)', 'app', '!app' or 'level>5'"
    )


def _integer(text: str) -> int | None:
    """A label's value as the API server compares it: in 64 bits, or not at all."""
    # A label cannot begin with a sign, and int() would read more than Go does.
    if not (text.isascii() and text.isdecimal()):
        return None
    return number if (number := int(text)) < 1 << 63 else None


def _lies_beyond(limit: int, number: int | None, above: bool) -> bool:
    if number is None:
        return False
    return number > limit if above else number < limit


def parse_fields(selector: str) -> list[tuple[tuple[str, ...], str, bool]]:
    """(path, value, whether it must be equal) for each part of a field selector."""
    parts = []
    for text in filter(None, (part.strip() for part in selector.split(","))):
        found = _EQUAL.match(text)
        if found is None:
            raise SelectorError(
                f"the field selector has a part that cannot be read: {text!r}; "
                "write it like 'metadata.name=web' or 'spec.nodeName!=node-1'"
            )
        parts.append((tuple(found["key"].split(".")), found["value"], found["verb"] != "!="))
    return parts


def read(value: Any, path: tuple[str, ...]) -> str:
    """The text of a field by its name on the wire; an unset field reads as empty."""
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, msgspec.Struct):
            value = _attribute(value, name)
        else:
            value = None
        if value is None:
            return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _attribute(struct: msgspec.Struct, name: str) -> Any:
    for attribute, wire in zip(
        struct.__struct_fields__, struct.__struct_encode_fields__, strict=True
    ):
        if wire == name:
            return getattr(struct, attribute)
    raise SelectorError(
        f"{type(struct).__name__} has no field {name!r} to select by; add it to the type"
    )


EVERYTHING = Selection()
