"""Objects inside templates, which a template's author may write in any shape.

Admission refuses what has the wrong shape. What slips past it must not stop the plan of a whole
session: it is left out, or goes to the API server as it is, which says what is wrong with it.
"""

from __future__ import annotations

from typing import Any


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def metadata_problem(metadata: object) -> str:
    """What is wrong with the shape of an object's metadata; empty if nothing is."""
    if not isinstance(metadata, dict | None):
        return "metadata must be an object"
    for field in ("labels", "annotations"):
        if not _texts(mapping(metadata).get(field)):
            return f"metadata.{field} must be texts by their names, such as {{app: chat}}"
    return ""


def _texts(value: object) -> bool:
    return isinstance(value, dict | None) and all(
        isinstance(each, str) for each in mapping(value).values()
    )
