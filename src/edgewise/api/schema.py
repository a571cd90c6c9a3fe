"""Structural schemas for custom resources, made from msgspec types.

What a schema says comes from the type and nowhere else:

- the type's docstring, and the string literal right below a field, are descriptions;
- a field without a default is required; a default that is not empty is the API's default;
- `Literal` and string enums are enums; `Annotated[int, Meta(ge=1, le=10)]` is a range, and
  `Meta` also carries patterns and lengths;
- `dict[str, Any]` stays open (`x-kubernetes-preserve-unknown-fields`), `int | str` is
  int-or-string;
- `Annotated[list[Port], keyed_by("name")]` and `Annotated[list[str], as_set()]` say how
  server-side apply merges a list; `as_one()` that it does not;
- `Annotated[dict[str, Entry], left_open()]` keeps a typed part open for the API server;
- `RULES: ClassVar = (Rule("self.min <= self.max", "min must not be above max"),)` on a type,
  or `Annotated[str, rules(Rule(...))]` on a field, are CEL rules. An empty default (0, "",
  False, []) is not written to objects, so a rule must ask `has(self.field)` first.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import inspect as types

from edgewise.errors import ReadableError

Schema = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
# What says how the inside of an object looks.
_INSIDE = ("properties", "additionalProperties", "required", "x-kubernetes-validations")


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One CEL rule; `self` is the value it stands on, `oldSelf` the one before an update."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""


class SchemaError(ReadableError, TypeError):
    """A type that no structural schema can describe."""


def rules(*declared: Rule) -> msgspec.Meta:
    """CEL rules on one field."""
    return msgspec.Meta(extra_json_schema={"x-kubernetes-validations": _validations(declared)})


def keyed_by(*keys: str) -> msgspec.Meta:
    """A list whose items are told apart by these fields (names as on the wire)."""
    return msgspec.Meta(
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [*keys],
        }
    )


def as_set() -> msgspec.Meta:
    """A list in which every value stands once."""
    return msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "set"})


def as_one() -> msgspec.Meta:
    """A list or map that is only ever replaced whole."""
    return msgspec.Meta(
        extra_json_schema={"x-kubernetes-list-type": "atomic", "x-kubernetes-map-type": "atomic"}
    )


def left_open() -> msgspec.Meta:
    """A map or part whose inside the API server does not look at, because it is written
    often and grows: checking every node of it costs more than the rest of a write."""
    return msgspec.Meta(extra_json_schema={PRESERVE: True})


def schema_of(declared: Any, *, no_defaults_at: str = "") -> Schema:
    """The structural schema of a type.

    A status (`no_defaults_at="$.status"`) is written by controllers alone: the API server
    must not say a thing that no controller has found out.
    """
    return _Writer(no_defaults_at).write(types.type_info(declared), "$")


class _Writer:
    def __init__(self, no_defaults_at: str) -> None:
        self._no_defaults_at = no_defaults_at
        self._inside: list[type] = []

    def write(self, info: types.Type, at: str) -> Schema:  # noqa: PLR0911, PLR0912 - one per type
        match info:
            case types.Metadata(type=inner, extra_json_schema=extra):
                return self._refined(self.write(inner, at), extra or {})
            case types.StructType():
                return self._struct(info, at)
            case types.UnionType():
                return self._union(info, at)
            case types.AnyType() | types.RawType():
                return {PRESERVE: True}
            case types.BoolType():
                return {"type": "boolean"}
            case types.IntType():
                return {"type": "integer", "format": "int64", **_range(info)}
            case types.FloatType():
                return {"type": "number", **_range(info)}
            case types.StrType(min_length=low, max_length=high, pattern=pattern):
                return {
                    "type": "string",
                    **_present(minLength=low, maxLength=high, pattern=pattern),
                }
            case types.BytesType():
                return {"type": "string", "format": "byte"}
            case types.DateTimeType():
                return {"type": "string", "format": "date-time"}
            case types.LiteralType(values=values):
                return self._enum(values, at)
            case types.EnumType(cls=cls):
                return self._enum(tuple(member.value for member in cls), at)
            case (
                types.ListType(item_type=item, min_length=low, max_length=high)
                | types.VarTupleType(item_type=item, min_length=low, max_length=high)
            ):
                return {
                    "type": "array",
                    "items": self.write(item, f"{at}[]"),
                    **_present(minItems=low, maxItems=high),
                }
            case types.DictType():
                return self._dict(info, at)
            case _:
                raise SchemaError(f"{at}: {type(info).__name__} has no form in a CRD")

    def _refined(self, schema: Schema, extra: Schema) -> Schema:
        extra = dict(extra)
        # `as_one` serves lists and maps; each knows only its own word for it.
        for word, wanted in (("list", "array"), ("map", "object")):
            if schema.get("type") != wanted:
                extra.pop(f"x-kubernetes-{word}-type", None)
        if extra.get(PRESERVE):
            schema = {name: schema[name] for name in schema if name not in _INSIDE}
        validations = schema.get("x-kubernetes-validations", [])
        schema = {**schema, **extra}
        if validations and "x-kubernetes-validations" in extra:
            schema["x-kubernetes-validations"] = [
                *validations,
                *extra["x-kubernetes-validations"],
            ]
        return schema

    def _struct(self, info: types.StructType, at: str) -> Schema:
        cls = info.cls
        if info.tag is not None or info.array_like:
            raise SchemaError(f"{at}: {cls.__name__} is tagged or array-like, which has no form")
        if cls in self._inside:
            raise SchemaError(f"{at}: {cls.__name__} contains itself; keep that part open instead")
        self._inside.append(cls)
        properties: Schema = {}
        required = []
        for field in info.fields:
            where = f"{at}.{field.encode_name}"
            found = self.write(field.type, where)
            described = field_descriptions(cls).get(field.name)
            if described:
                found = {"description": described, **found}
            if field.required:
                required.append(field.encode_name)
            elif not self._without_default(where):
                found |= _default(field, found)
            if field.required and _may_be_null(field.type):
                found["nullable"] = True
            properties[field.encode_name] = found
        self._inside.pop()
        schema: Schema = _present(description=_docstring(cls))
        schema |= {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        declared: tuple[Rule, ...] = getattr(cls, "RULES", ())
        for rule in declared:
            _check_presence(rule, schema, f"{at} ({cls.__name__})")
        if declared:
            schema["x-kubernetes-validations"] = _validations(declared)
        return schema

    def _without_default(self, where: str) -> bool:
        quiet = self._no_defaults_at
        return bool(quiet) and (where == quiet or where.startswith((f"{quiet}.", f"{quiet}[")))

    def _union(self, info: types.UnionType, at: str) -> Schema:
        parts = [part for part in info.types if not isinstance(part, types.NoneType)]
        if len(parts) == 1:
            return self.write(parts[0], at)
        if {type(_bare(part)) for part in parts} == {types.IntType, types.StrType}:
            return {"x-kubernetes-int-or-string": True}
        names = " | ".join(type(part).__name__.removesuffix("Type") for part in parts)
        raise SchemaError(f"{at}: a choice of types ({names}) has no form in a CRD")

    def _dict(self, info: types.DictType, at: str) -> Schema:
        if not isinstance(_bare(info.key_type), types.StrType):
            raise SchemaError(f"{at}: the keys of a map must be strings")
        schema: Schema = {
            "type": "object",
            **_present(minProperties=info.min_length, maxProperties=info.max_length),
        }
        if isinstance(info.value_type, types.AnyType):
            return {**schema, PRESERVE: True}
        return {**schema, "additionalProperties": self.write(info.value_type, f"{at}{{}}")}

    def _enum(self, values: tuple[Any, ...], at: str) -> Schema:
        if not all(isinstance(value, str) for value in values):
            raise SchemaError(f"{at}: an enum in a CRD is one of strings")
        return {"type": "string", "enum": list(values)}


def _bare(info: types.Type) -> types.Type:
    return info.type if isinstance(info, types.Metadata) else info


def _present(**keywords: Any) -> Schema:
    return {name: value for name, value in keywords.items() if value is not None}


def _range(info: types.IntType | types.FloatType) -> Schema:
    schema = _present(
        minimum=info.ge if info.gt is None else info.gt,
        maximum=info.le if info.lt is None else info.lt,
        multipleOf=info.multiple_of,
    )
    if info.gt is not None:
        schema["exclusiveMinimum"] = True
    if info.lt is not None:
        schema["exclusiveMaximum"] = True
    return schema


def _has_defaults(schema: Schema) -> bool:
    return any(
        "default" in part or _has_defaults(part) for part in schema.get("properties", {}).values()
    )


def _default(field: types.Field, found: Schema) -> Schema:
    value = field.default
    if value is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if isinstance(value, msgspec.Struct):
        # An absent part gets an empty one, so that the defaults inside it hold too.
        return {"default": {}} if _has_defaults(found) else {}
    plain = msgspec.to_builtins(value)
    return {"default": plain} if plain not in (None, "", 0, [], {}) else {}


def _may_be_null(info: types.Type) -> bool:
    return isinstance(info, types.UnionType) and info.includes_none


def _check_presence(rule: Rule, schema: Schema, at: str) -> None:
    """Reading an absent field is an error in CEL, which would refuse every such object."""
    required = schema.get("required", [])
    for name in sorted(set(re.findall(r"\b(?:self|oldSelf)\.(\w+)", rule.rule))):
        field = schema["properties"].get(name)
        if field is None:
            raise SchemaError(f"{at}: the rule {rule.rule!r} reads {name}, which is not there")
        absent = name not in required and "default" not in field
        if absent and not re.search(rf"has\((?:self|oldSelf)\.{name}\b", rule.rule):
            raise SchemaError(
                f"{at}: the rule {rule.rule!r} reads {name}, which may be left out: "
                f"begin it with `!has(self.{name}) ||`"
            )


def _validations(declared: tuple[Rule, ...]) -> list[Schema]:
    return [msgspec.to_builtins(rule) for rule in declared]


def _docstring(cls: type) -> str | None:
    """A docstring of the class itself, as one paragraph per blank-line-separated block."""
    text = cls.__dict__.get("__doc__")
    return _paragraphs(text) if text else None


def _paragraphs(text: str) -> str:
    blocks = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(block.split()) for block in blocks)


@cache
def field_descriptions(cls: type) -> dict[str, str]:
    """The string literals that stand right below the fields of a class and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is not msgspec.Struct and issubclass(base, msgspec.Struct):
            found |= _literals_below_fields(base)
    return found


def _literals_below_fields(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # made at run time: there is no source to read
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, below in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[field.target.id] = _paragraphs(below.value.value)
    return found
