"""The smallest JSON merge patch that turns one document into another (RFC 7386)."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]


def difference(before: JsonObject, after: JsonObject) -> JsonObject:
    """What to send; empty when nothing changed. Lists are replaced as a whole."""
    patch: JsonObject = {}
    for name, old in before.items():
        if name not in after:
            patch[name] = None
        elif isinstance(old, dict) and isinstance(after[name], dict):
            if inner := difference(old, after[name]):
                patch[name] = inner
        elif old != after[name]:
            patch[name] = after[name]
    for name, new in after.items():
        if name not in before:
            patch[name] = new
    return patch
