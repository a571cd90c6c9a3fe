"""`edgewise bench report`: one page of all stored results."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import asdict

from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.report.answers import answers
from edgewise.bench.evaluation.report.chapters import Chapter
from edgewise.bench.evaluation.report.comparing import comparisons
from edgewise.bench.evaluation.report.page import page
from edgewise.bench.evaluation.report.run_chapter import run_chapter
from edgewise.bench.evaluation.report.stored_chapter import key_of, stored_chapter
from edgewise.bench.evaluation.report.traces import traces
from edgewise.bench.evaluation.report.verdicts import beside
from edgewise.bench.evaluation.results import (
    About,
    ResultsError,
    RunFolder,
    Stored,
    runs,
    stored,
)
from edgewise.cli.bench.storing import results_root

app = typer.Typer()

FIGURES = "results.json"

Parts = list[tuple[str, list[Chapter]]]


@app.command()
def report(
    folder: Annotated[
        Path | None, typer.Argument(help="Where results are; by default where benches put them.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; by default in that folder.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Write each picture into this folder too, as SVG.")
    ] = None,
) -> None:
    """Draw all stored results into one page that needs no network, with results.json beside it."""
    root = folder or results_root()
    parts = parts_of(root)
    if not any(chapters for _, chapters in parts):
        raise ResultsError(f"{root} holds no results: `edgewise bench run` makes some")
    parts.insert(1, ("Traces", [traces()]))
    target = output or root / "report.html"
    try:
        target.write_text(page(parts))
        figures = msgspec.json.format(msgspec.json.encode(all_figures(root), order="deterministic"))
        target.with_name(FIGURES).write_bytes(figures)
        drawn = list(write_pictures(parts, pictures)) if pictures is not None else []
        if pictures is not None:
            (pictures / FIGURES).write_bytes(figures)
    except OSError as error:
        raise ResultsError(f"the report cannot be written: {error}") from None
    told = {
        "report": str(target),
        "results": str(target.with_name(FIGURES)),
        "chapters": sum(len(chapters) for _, chapters in parts),
        "pictures": drawn,
    }
    print(json.dumps(told))


def parts_of(root: Path) -> Parts:
    evaluated = runs(root)
    return [
        ("Two questions", answers(evaluated)),
        ("Cases side by side", [run_chapter(run, evaluated) for run in evaluated]),
        ("Across runs", comparisons(evaluated)),
        *by_domain([found for _, found in stored(root)]),
    ]


def all_figures(root: Path) -> dict[str, Any]:
    """Every figure on the page, with its command, machine and commit; for programs."""
    return {
        "runs": {
            run.path.name: {
                "about": origin(run.about()),
                "cases": {
                    case: {"whole": run.is_done(case)} | figures_of(run.records(case))
                    for case in run.cases()
                },
                "beside": beside_of(run),
            }
            for run in runs(root)
        },
        "benches": {
            key_of(found.about): {"about": origin(found.about), "figures": found.figures}
            for _, found in stored(root)
        },
    }


def beside_of(run: RunFolder) -> dict[str, Any]:
    """Of what the pods use, minute by minute, where the baselines ran too."""
    speed = float(run.about().options.get("speed", 1))
    records = {case: run.records(case) for case in run.cases()}
    return {
        "memory": beside(records, speed, lambda each: each.pods_mb),
        "cpu": beside(records, speed, lambda each: each.pods_cpu),
    }


def origin(told: About) -> dict[str, Any]:
    """Without the hour, which says nothing of a figure: the same figures are the same file."""
    return {name: value for name, value in asdict(told).items() if name != "began"}


def by_domain(found: Sequence[Stored]) -> Parts:
    """A part for each domain, with the newest run of each of its benches by the same options."""
    from edgewise.cli.main import ENTRIES  # noqa: PLC0415 - which imports this by name

    domain_of = {bench: entry.domain for entry in ENTRIES for bench in entry.bench}
    newest: dict[str, list[Stored]] = {}
    for each in found:
        newest.setdefault(key_of(each.about), []).append(each)
    parts: dict[str, list[Chapter]] = {}
    for all_of_it in newest.values():
        bench = all_of_it[-1].about.bench
        chapter = stored_chapter(all_of_it[-1], len(all_of_it) - 1)
        parts.setdefault(domain_of.get(bench, bench), []).append(chapter)
    return [(domain.capitalize(), chapters) for domain, chapters in sorted(parts.items())]


def write_pictures(parts: Parts, folder: Path) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for _, chapters in parts:
        for chapter in chapters:
            for section in chapter.sections:
                if section.svg:
                    name = f"{chapter.name}-{section.name}.svg"
                    (folder / name).write_text(section.svg)
                    yield name
