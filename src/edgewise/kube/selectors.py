"""Selectors made from names, safe against names that would select something else."""

from __future__ import annotations

import re

from edgewise.kube.errors import Invalid

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def is_name(text: str) -> bool:
    """Whether an object can have this name (a DNS subdomain, as nearly all kinds want it)."""
    return _NAME.fullmatch(text) is not None


def name_is(name: str) -> str:
    """A field selector for the one object of this name."""
    if not is_name(name):
        raise Invalid(
            422,
            "Invalid",
            f"{name[:253]!r} cannot be a name: use lower-case letters, digits, dashes and dots",
        )
    return f"metadata.name={name}"


def label_is(label: str, value: str) -> str:
    """A label selector for this value of a label."""
    if _LABEL_VALUE.fullmatch(value) is None:
        raise Invalid(422, "Invalid", f"{value[:253]!r} cannot be the value of a label")
    return f"{label}={value}"
