"""What a page is made of: chapters with pictures and tables, each with where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from edgewise.bench.evaluation.results import About


class Table(msgspec.Struct, frozen=True, kw_only=True):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    text: str = ""
    points: Sequence[str] = ()  # sentences, each for itself
    svg: str = ""
    name: str = ""  # of the picture's file in the docs
    table: Table | None = None


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    about: About | None  # nothing was measured for one that has none
    sections: Sequence[Section]
    name: str = ""  # what the files of its pictures begin with


def number(value: float | None) -> str:
    """As short as it can be told: three digits are more than a machine repeats."""
    if value is None:
        return "–"
    if abs(value) < 1e6 and (value == int(value) or abs(value) >= 1000):
        return str(round(value))
    return f"{value:.3g}"
