"""The reference page of all kinds, in Markdown, from the same schemas as the CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from edgewise.api.crd import crd_spec, object_schema
from edgewise.api.schema import PRESERVE, Schema
from edgewise.kube.objects import Object

HEADER = """<!-- Written by `edgewise crds generate` from the types in src/edgewise/api. -->
# API reference

Every kind that Edgewise adds to Kubernetes, with all of its fields. A field in **bold** must be
set. `[]` stands for each item of a list, `{}` for each value of a map.
"""


def render_reference(kinds: Iterable[type[Object]]) -> str:
    return "\n".join([HEADER, *(_section(kind) for kind in kinds)])


def _section(kind: type[Object]) -> str:
    schema = object_schema(kind)
    named = kind.KIND
    scope = "in a namespace" if named.namespaced else "cluster-wide"
    names = ", ".join(f"`{name}`" for name in (named.plural, *crd_spec(kind).short_names))
    lines = [
        f"## {named.kind}",
        "",
        f"`{named.api_version}`, {scope}; for kubectl: {names}.",
        "",
    ]
    if described := schema.get("description"):
        lines += [described, ""]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    parts = list(_parts_of_object(schema))
    # Items and values have no name, so they are described with the list or map they are in.
    lines += [_row(*part) for part in parts if not part[0].endswith(("[]", "{}"))]
    rules = [rule for path, part, _ in parts for rule in _rules(f"`{path}`", part)]
    rules += _rules("the object", schema)
    if rules:
        lines += ["", "The API server also refuses an object that breaks one of these rules:", ""]
        lines += rules
    return "\n".join([*lines, ""])


def _parts_of_object(schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    for name, found in schema["properties"].items():
        if name not in ("apiVersion", "kind", "metadata"):
            yield from _parts(name, found, name in schema.get("required", []))


def _parts(path: str, schema: Schema, required: bool) -> Iterator[tuple[str, Schema, bool]]:
    """A field and all that is in it, outermost first."""
    yield path, schema, required
    for name, found in schema.get("properties", {}).items():
        yield from _parts(f"{path}.{name}", found, name in schema.get("required", []))
    if "items" in schema:
        yield from _parts(f"{path}[]", schema["items"], False)
    if "additionalProperties" in schema:
        yield from _parts(f"{path}{{}}", schema["additionalProperties"], False)


def _row(path: str, schema: Schema, required: bool) -> str:
    name = f"**`{path}`**" if required else f"`{path}`"
    default = schema.get("default")
    shown = f"`{_literal(default)}`" if default not in (None, {}) else ""
    meaning = " ".join(schema.get("description", "").split())
    return f"| {name} | {_escaped(type_of(schema))} | {_escaped(shown)} | {_escaped(meaning)} |"


def _literal(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def type_of(schema: Schema) -> str:  # noqa: PLR0911 - one per type
    """A type with its limits, in a few words."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_inner(schema['items'])}{_limits(schema, 'Items', 'items')}"
    if "additionalProperties" in schema:
        inner = _inner(schema["additionalProperties"])
        return f"map of {inner}{_limits(schema, 'Properties', 'entries')}"
    if schema.get(PRESERVE):
        return "any object" if kind == "object" else "anything"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("format") == "date-time":
        return "time"
    if schema.get("format") == "byte":
        return "bytes (base64)"
    pattern = f" matching `{schema['pattern']}`" if "pattern" in schema else ""
    return f"{kind}{_range(schema)}{_limits(schema, 'Length', 'characters')}{pattern}"


def _inner(schema: Schema) -> str:
    words = type_of(schema)
    return f"({words})" if "," in words else words


def _limits(schema: Schema, word: str, unit: str) -> str:
    low, high = schema.get(f"min{word}"), schema.get(f"max{word}")
    if low is not None and high is not None:
        return f", {low} to {high} {unit}"
    if high is not None:
        return f", at most {high} {unit}"
    return f", at least {low} {unit}" if low is not None else ""


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    parts = []
    if low is not None:
        parts.append(f"{'>' if schema.get('exclusiveMinimum') else '≥'} {low}")
    if high is not None:
        parts.append(f"{'<' if schema.get('exclusiveMaximum') else '≤'} {high}")
    return f" {', '.join(parts)}" if parts else ""


def _rules(where: str, schema: Schema) -> list[str]:
    return [
        f"- {where}: {rule.get('message') or rule['rule']}"
        for rule in schema.get("x-kubernetes-validations", [])
    ]
