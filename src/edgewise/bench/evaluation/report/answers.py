"""The two questions that the text asks, answered by stored runs and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.report.chapters import Chapter, Section, number
from edgewise.bench.evaluation.report.run_chapter import title_of
from edgewise.bench.evaluation.report.verdicts import (
    OURS,
    SCOPED,
    STATIC,
    memory_verdicts,
)
from edgewise.bench.evaluation.results import RunFolder

FIRST = (
    "How does it perform in memory, processor, connection and recovery latency beside conventional "
    "designs?"
)
SECOND = "How do both latencies behave when the load is spread over several clusters?"


def answers(runs: Sequence[RunFolder]) -> list[Chapter]:
    """A chapter for each run with both baselines, and one for each number of clusters' company."""
    found = []
    for run in runs:
        if all(case in run.cases() and run.is_done(case) for case in (OURS, STATIC, SCOPED)):
            found.append(_first(run))
    several = [run for run in runs if run.about().options.get("clusters", 1) > 1]
    if several:
        found.append(_second(runs, several[0]))
    return found


def _first(run: RunFolder) -> Chapter:
    about = run.about()
    records = {case: run.records(case) for case in run.cases()}
    figures = {case: figures_of(each) for case, each in records.items()}
    told = [_numbers(case, found) for case, found in figures.items()]
    told += memory_verdicts(records, float(about.options.get("speed", 1)))
    told.append("Where it is not better, and why, is said below, beside the pictures of this run.")
    section = Section(title=title_of(about.options), points=told)
    return Chapter(title=FIRST, about=about, sections=[section])


def _second(runs: Sequence[RunFolder], one: RunFolder) -> Chapter:
    about = one.about()
    rest = _but_clusters(about.options)
    told = []
    for run in sorted(runs, key=_clusters):
        if _but_clusters(run.about().options) == rest and OURS in run.cases():
            number_of = _clusters(run)
            name = "1 cluster" if number_of == 1 else f"{number_of} clusters"
            told.append(_numbers(name, figures_of(run.records(OURS))))
    section = Section(title=title_of(rest | {"clusters": 1}), points=told)
    return Chapter(title=SECOND, about=about, sections=[section])


def _clusters(run: RunFolder) -> int:
    return int(run.about().options.get("clusters", 1))


def _but_clusters(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "clusters"}


def _numbers(name: str, figures: Mapping[str, Any]) -> str:
    connect, recover = figures["connect_s"], figures["recover_s"]
    return (
        f"{name}: connection p50 {number(connect.get('p50'))} s, "
        f"p80 {number(connect.get('p80'))} s, "
        f"at most {number(connect.get('max'))} s; recovery p50 {number(recover.get('p50'))} s, "
        f"at most {number(recover.get('max'))} s; "
        f"memory of its pods {number(figures['memory_mb'].get('mean'))} MB on average, "
        f"processor {number(figures['cpu_percent'].get('mean'))} % of a core; "
        f"{connect['failed'] + recover['failed']} clients were never let in."
    )
