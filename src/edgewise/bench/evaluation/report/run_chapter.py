"""The chapter of one run: latencies, recovery, memory and processor of its cases, and its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.report.chapters import Chapter, Section, Table, number
from edgewise.bench.evaluation.report.drawing import distribution, exceeded, over_time
from edgewise.bench.evaluation.report.the_text import (
    CASES,
    CONNECT,
    MEMORY,
    PROCESSOR,
    RECOVER,
    TRACE,
)
from edgewise.bench.evaluation.report.verdicts import (
    FLOOR,
    OURS,
    SCOPED,
    STATIC,
    memory_verdicts,
    timing_verdict,
    verdicts,
)
from edgewise.bench.evaluation.results import RunFolder
from edgewise.bench.evaluation.trace import Trace, populations, read_file
from edgewise.bench.evaluation.use import SAMPLE_SECONDS

USE = ("memory_mb", "cpu_percent")
ORDER = (OURS, STATIC, SCOPED, FLOOR)
OF_EDGEWISE = ("warm", "reuse_seconds", "across")

Records = Mapping[str, Sequence[Record]]


def run_chapter(folder: RunFolder, others: Sequence[RunFolder] = ()) -> Chapter:
    """The conventional designs know nothing of warm pods and reuse: a run of Edgewise with these
    stands beside their run among `others` that had the same load."""
    about = folder.about()
    holders = dict.fromkeys(folder.cases(), folder)
    for other in others:
        if alike(other.about().options) == alike(about.options):
            holders = {case: other for case in other.cases() if case != OURS} | holders
    cases = sorted(holders, key=lambda case: ORDER.index(case) if case in ORDER else 9)
    records = {case: holders[case].records(case) for case in cases}
    figures = {case: figures_of(found) for case, found in records.items()}
    speed = float(about.options.get("speed", 1))
    compressed = f" Time was compressed {speed:g} times." if speed != 1 else ""
    unfinished = [case for case in records if not holders[case].is_done(case)]
    note = f" Not finished: {', '.join(unfinished)}." if unfinished else ""
    for case, found in figures.items():
        if holders[case] is folder and found["command"] not in ("", about.command):
            note += f" {case}: by `{found['command']}`."
    borrowed = [case for case in cases if holders[case] is not folder]
    for holder in {holders[case].path: holders[case] for case in borrowed}.values():
        theirs = holder.about()
        of_it = ", ".join(case for case in borrowed if holders[case] is holder)
        note += f" {of_it}: from the run `{theirs.command}`, commit {theirs.commit}."
    told = [
        *verdicts(figures),
        *memory_verdicts(records, speed),
        *timing_verdict(figures, speed),
    ]
    return Chapter(
        title=title_of(about.options),
        about=about,
        name=folder.path.name,
        sections=[
            Section(title="What this says", points=told),
            Section(
                title="Load",
                text=f"{TRACE}{compressed}{note}",
                svg=load_picture(read_file(folder.path / "trace.jsonl")),
                name="load",
            ),
            _latency("Connection latency", CONNECT, records, figures, Kind.CONNECT),
            _latency("Recovery latency", RECOVER, records, figures, Kind.RECOVER),
            *_use(
                "Memory of the pods", "MB", MEMORY, records, lambda each: each.pods_mb, speed=speed
            ),
            *_use(
                "Processor of the pods",
                "cores",
                PROCESSOR,
                records,
                lambda each: each.pods_cpu,
                speed=speed,
            ),
            Section(title="All figures", table=_table(figures)),
            Section(title="Beside the pods", table=_parts(figures)),
            *_parts_over_time(records, speed),
        ],
    )


def alike(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that concern every case."""
    return {name: value for name, value in options.items() if name not in OF_EDGEWISE}


def title_of(options: Mapping[str, Any]) -> str:
    parts = [f"trace {options.get('trace')}, seed {options.get('seed')}"]
    if (speed := options.get("speed", 1)) != 1:
        parts.append(f"{speed:g} times as fast")
    if (workload := options.get("workload", "http")) != "http":
        parts.append(workload)
    if (clusters := options.get("clusters", 1)) > 1:
        parts.append(f"{clusters} clusters")
    if away := options.get("away"):
        parts.append(f"{', '.join(f'{each:g}' for each in away)} ms away")
    if options.get("choose") == "latency":
        parts.append("the nearest")
    if warm := options.get("warm"):
        parts.append(f"{warm} warm pods")
    if reuse := options.get("reuse_seconds"):
        parts.append(f"reuse for {reuse} s" + (" across sessions" if options.get("across") else ""))
    return ", ".join(parts)


def load_picture(trace: Trace) -> str:
    rows = list(populations(trace.events))
    minutes = [at / 60 for at, _, _ in rows]
    return over_time(
        {
            "clients": (minutes, [clients for _, _, clients in rows]),
            "sessions": (minutes, [sessions for _, sessions, _ in rows]),
        },
        "at the same time",
    )


def _latency(
    title: str, seed: str, records: Records, figures: Mapping[str, Any], kind: Kind
) -> Section:
    series = {
        case: [each.seconds for each in found if each.kind is kind and not each.failed]
        for case, found in records.items()
    }
    key = "connect_s" if kind is Kind.CONNECT else "recover_s"
    shares = ("n", "failed", "p5", "p50", "p80", "p95", "p99", "max")
    rows = [
        [case, *(number(figures[case][key].get(share)) for share in shares)] for case in records
    ]
    return Section(
        title=title,
        text=seed,
        svg=distribution(series, "seconds", CASES[kind]),
        name=kind.value,
        table=Table(head=["case", *shares], rows=rows),
    )


def _use(
    title: str,
    unit: str,
    seed: str,
    records: Records,
    value: Callable[[Record], float],
    *,
    speed: float,
) -> list[Section]:
    use = {
        case: [each for each in found if each.kind is Kind.USE] for case, found in records.items()
    }
    lines = {
        case: ([each.at * speed / 60 for each in found], [value(each) for each in found])
        for case, found in use.items()
    }
    word = title.split(" ", maxsplit=1)[0].lower()
    sections = [
        Section(title=title, text=seed, svg=over_time(lines, unit), name=f"{word}-over-time")
    ]
    ours = by_moment(use.get(OURS, []), value)
    differences = {}
    for case, found in use.items():
        theirs = by_moment(found, value)
        if case not in (OURS, FLOOR):
            both = sorted(ours.keys() & theirs.keys())
            differences[f"{case} − {OURS}"] = [theirs[each] - ours[each] for each in both]
    if any(differences.values()):
        picture = exceeded(differences, f"{unit} more than {OURS}")
        text = "Right of zero the other case uses more."
        sections.append(
            Section(title=f"{title}, difference", text=text, svg=picture, name=f"{word}-difference")
        )
    return sections


def by_moment(records: Sequence[Record], value: Callable[[Record], float]) -> dict[int, float]:
    """By the number of the sample that was due: it may be missing in one case alone."""
    return {round(each.at / SAMPLE_SECONDS): value(each) for each in records}


def _parts_over_time(records: Records, speed: float) -> Iterator[Section]:
    """What serves the pods of Edgewise: programs of ours, and the API server."""
    use = [each for each in records.get(OURS, ()) if each.kind is Kind.USE]
    names = list(dict.fromkeys(name for each in use for name in each.parts))
    if not names:
        return
    minutes = [each.at * speed / 60 for each in use]
    for title, unit, place, factor in (
        ("Memory", "MB", 0, 1),
        ("Processor", "% of a core", 1, 100),
    ):
        lines = {
            name: (minutes, [factor * each.parts.get(name, (0.0, 0.0))[place] for each in use])
            for name in names
        }
        yield Section(
            title=f"{title} of the programs beside the pods of {OURS}",
            svg=over_time(lines, unit),
            name=f"{title.lower()}-of-programs",
        )


def _table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for case, found in figures.items():
        rows.append(
            [
                case,
                number(found["memory_mb"].get("mean")),
                number(found["memory_mb"].get("max")),
                number(found["cpu_percent"].get("mean")),
                number(found["cpu_percent"].get("max")),
                number(found["tries"]),
                number(found["left_waiting"]),
                number(found["reconnect_s"]["n"]),
                number(found["api_writes_per_connection"]),
                number(found["machine"].get("busy_percent")),
                number(found["machine"].get("stolen_percent")),
                number(found["late_ms"].get("max")),
            ]
        )
    head = (
        "case",
        "memory mean, MB",
        "max",
        "cpu mean, %",
        "max",
        "tries",
        "left while waiting",
        "connections broken otherwise",
        "API writes a connection",
        "machine busy, %",
        "stolen, %",
        "events late by, ms at most",
    )
    return Table(head=head, rows=rows)


def _parts(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    """What serves the pods: programs of ours, and the API server."""
    rows = [
        [
            f"{case}: {name}",
            *(number(use[key].get(each)) for key in USE for each in ("mean", "max")),
        ]
        for case, found in figures.items()
        for name, use in found["parts"].items()
    ]
    return Table(head=("program", "memory mean, MB", "max", "cpu mean, %", "max"), rows=rows)
