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


def not_texts(value: object) -> bool:
    """Whether labels or annotations are anything but texts by their names."""
    return value is not None and not (
        isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    )
