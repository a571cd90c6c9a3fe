"""The chapter of a bench that prints one JSON object: a table, and a picture if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgewise.bench.evaluation.report.chapters import Chapter, Section, Table, number
from edgewise.bench.evaluation.report.drawing import bars, over_time
from edgewise.bench.evaluation.results import About, Stored

# One small function for a bench that wants a picture: its figures → an SVG, or nothing.
Picture = Callable[[Mapping[str, Any]], str]


def latencies_picture(figures: Mapping[str, Any]) -> str:
    """The p50 of all that took seconds, or else milliseconds: most benches have nothing else."""
    for suffix, unit in (("_s", "seconds, p50"), ("_ms", "ms, p50")):
        if found := dict(medians(figures, suffix)):
            return bars(found, unit)
    return ""


def medians(
    figures: Mapping[str, Any], suffix: str, prefix: str = ""
) -> Iterator[tuple[str, float]]:
    for name, found in figures.items():
        if isinstance(found, Mapping):
            if name.endswith(suffix) and isinstance(found.get("p50"), int | float):
                yield prefix + name.removesuffix(suffix), found["p50"]
            else:
                yield from medians(found, suffix, f"{prefix}{name} ")


def soak_picture(figures: Mapping[str, Any]) -> str:
    """What each program held whenever it was weighed."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for weight in figures.get("weights") or []:
        for name, held in weight["programs"].items():
            minutes, megabytes = lines.setdefault(name, ([], []))
            minutes.append(weight["after_s"] / 60)
            megabytes.append(held["memory_mb"])
    return over_time(lines, "MB without any client") if lines else ""


# Of the benches that have a picture of their own.
PICTURES: dict[str, Picture] = {"soak": soak_picture}


def stored_chapter(found: Stored, older: int) -> Chapter:
    """`older` says how many runs of the same bench are stored besides this, the newest."""
    draw = PICTURES.get(found.about.bench, latencies_picture)
    rows = [[name, value] for name, value in flat(found.figures)]
    text = f"The newest of {older + 1} stored runs." if older else ""
    sections = []
    if picture := draw(found.figures):
        sections.append(Section(title="Picture", svg=picture, name="picture"))
    sections.append(
        Section(title="Figures", text=text, table=Table(head=("figure", "value"), rows=rows))
    )
    return Chapter(
        title=f"bench {' '.join(asked(found.about))}",
        about=found.about,
        sections=sections,
        name=key_of(found.about),
    )


def asked(about: About) -> list[str]:
    """The bench and its options, as they stand in its command."""
    words = about.command.split()
    return words[words.index(about.bench) :] if about.bench in words else [about.bench]


def key_of(about: About) -> str:
    """Of a bench that was run with these options: with others it measures something else."""
    return slug(" ".join(asked(about)))


def slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


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
