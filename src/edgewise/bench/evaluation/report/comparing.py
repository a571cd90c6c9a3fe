"""Pictures across runs: what more clusters bring (figure 5.6), and what reuse costs (5.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.records import Kind
from edgewise.bench.evaluation.report.chapters import Chapter, Section, Table, number
from edgewise.bench.evaluation.report.drawing import boxes, distribution, over
from edgewise.bench.evaluation.report.the_text import CLUSTERS, MORE_CLUSTERS, REUSE
from edgewise.bench.evaluation.results import RunFolder

OURS = "edgewise"


def comparisons(runs: Sequence[RunFolder]) -> list[Chapter]:
    """One for each load that was run with several numbers of clusters, or several timeouts."""
    return [
        *_across(runs, "clusters", "More clusters", "clusters", _latencies),
        *_across(runs, "reuse_seconds", "Reuse", "s of reuse", _reuse),
    ]


def _across(
    runs: Sequence[RunFolder], option: str, title: str, unit: str, sections: Any
) -> list[Chapter]:
    alike: dict[str, dict[int, RunFolder]] = {}
    for run in runs:
        options = run.about().options
        rest = {name: value for name, value in options.items() if name != option}
        if OURS in run.cases() and run.is_done(OURS):
            alike.setdefault(repr(sorted(rest.items())), {})[int(options.get(option, 0))] = run
    found = []
    for by_value in alike.values():
        if len(by_value) > 1:
            ordered = dict(sorted(by_value.items()))
            first = next(iter(ordered.values()))
            about = first.about()
            named = {_named(value, unit): run for value, run in ordered.items()}
            load = f"trace {about.options.get('trace')}"
            found.append(
                Chapter(
                    title=f"{title}, {load}",
                    about=about,
                    sections=[*sections(named), _origins(named)],
                    # After the run with the least of it, which is the one that others extend.
                    name=f"{title.lower().replace(' ', '-')}-{first.path.name}",
                )
            )
    return found


def _named(value: int, unit: str) -> str:
    return f"{value} {unit.removesuffix('s') if value == 1 else unit}"


def _origins(runs: dict[str, RunFolder]) -> Section:
    """The chapter names the first of them only."""
    found = {name: run.about() for name, run in runs.items()}
    told = [f"{name}: {each.command}, commit {each.commit}" for name, each in found.items()]
    return Section(title="Its runs", points=told)


def _latencies(runs: dict[str, RunFolder]) -> list[Section]:
    return [
        Section(
            title=f"{word} latency",
            text=MORE_CLUSTERS,
            svg=distribution(
                {name: _seconds(run, kind) for name, run in runs.items()}, "seconds", CLUSTERS[kind]
            ),
            name=kind.value,
        )
        for word, kind in (("Connection", Kind.CONNECT), ("Recovery", Kind.RECOVER))
    ]


def _reuse(runs: dict[str, RunFolder]) -> list[Section]:
    found = {name: figures_of(run.records(OURS)) for name, run in runs.items()}
    rows = [
        [
            name,
            *(number(each["connect_s"].get(share)) for share in ("p50", "p80", "p95")),
            number(each["memory_mb"].get("mean")),
            number(each["cpu_percent"].get("mean")),
        ]
        for name, each in found.items()
    ]
    head = ("", "connect p50, s", "p80", "p95", "memory mean, MB", "cpu mean, %")
    kept = [float(name.partition(" ")[0]) for name in runs]
    costs = {
        unit: (kept, [each[key].get("mean", 0.0) for each in found.values()])
        for unit, key in (("memory, MB", "memory_mb"), ("processor, % of a core", "cpu_percent"))
    }
    return [
        Section(
            title="Connection latency by how long a pod is kept",
            text=REUSE,
            svg=boxes({name: _seconds(run, Kind.CONNECT) for name, run in runs.items()}, "", "s"),
            name="connect",
            table=Table(head=head, rows=rows),
        ),
        *(
            Section(
                title=f"{title} of the pods by how long a pod is kept",
                svg=over("seconds that a pod is kept", {unit: costs[unit]}, unit),
                name=title.lower(),
            )
            for title, unit in zip(("Memory", "Processor"), costs, strict=True)
        ),
    ]


def _seconds(run: RunFolder, kind: Kind) -> list[float]:
    return [each.seconds for each in run.records(OURS) if each.kind is kind and not each.failed]
