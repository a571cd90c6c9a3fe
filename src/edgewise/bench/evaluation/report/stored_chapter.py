"""The chapter of a bench that prints one JSON object: a table, and a picture if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgewise.bench.evaluation.report.chapters import Chapter, Section, Table, number
from edgewise.bench.evaluation.report.drawing import bars, over_time
from edgewise.bench.evaluation.results import Stored

# One small function for a bench that wants a picture: its figures → an SVG, or nothing.
Picture = Callable[[Mapping[str, Any]], str]


def join_picture(figures: Mapping[str, Any]) -> str:
    """The p50 of each way of `bench join`, beside a bare pod."""
    ways = {
        name.removesuffix("_s"): found["p50"]
        for name, found in figures.items()
        if name.endswith("_s") and isinstance(found, Mapping) and "p50" in found
    }
    return bars(ways, "seconds, p50") if ways else ""


def soak_picture(figures: Mapping[str, Any]) -> str:
    """What each program held whenever it was weighed."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for weight in figures.get("weights") or []:
        for name, held in weight["programs"].items():
            minutes, megabytes = lines.setdefault(name, ([], []))
            minutes.append(weight["after_s"] / 60)
            megabytes.append(held["memory_mb"])
    return over_time(lines, "MB without any client") if lines else ""


PICTURES: dict[str, Picture] = {"join": join_picture, "soak": soak_picture}


def stored_chapter(found: Stored, older: int) -> Chapter:
    """`older` says how many runs of the same bench are stored besides this, the newest."""
    draw = PICTURES.get(found.about.bench)
    rows = [[name, value] for name, value in flat(found.figures)]
    text = f"The newest of {older + 1} stored runs." if older else ""
    sections = []
    if draw is not None and (picture := draw(found.figures)):
        sections.append(Section(title="Picture", svg=picture, name=found.about.bench))
    sections.append(
        Section(title="Figures", text=text, table=Table(head=("figure", "value"), rows=rows))
    )
    return Chapter(title=f"bench {found.about.bench}", about=found.about, sections=sections)


def flat(figures: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names with dots in between, in the order of the bench."""
    if isinstance(figures, Mapping):
        for name, value in figures.items():
            yield from flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(figures, Sequence) and not isinstance(figures, str):
        yield prefix, ", ".join(_plain(each) for each in figures[:20])
    else:
        yield prefix, _plain(figures)


def _plain(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and value is not True else str(value)
