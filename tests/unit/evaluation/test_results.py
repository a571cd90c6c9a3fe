"""Results: what was measured is kept, and nothing else is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewise.bench.evaluation.api_writes import writes_in
from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.generating import generated
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.report.answers import answers
from edgewise.bench.evaluation.report.comparing import comparisons
from edgewise.bench.evaluation.report.page import page
from edgewise.bench.evaluation.report.run_chapter import by_moment, run_chapter
from edgewise.bench.evaluation.report.stored_chapter import flat, stored_chapter
from edgewise.bench.evaluation.report.verdicts import memory_verdicts, timing_verdict, verdicts
from edgewise.bench.evaluation.results import (
    ABOUT,
    ResultsError,
    RunFolder,
    Writer,
    about,
    runs,
    store,
    stored,
)
from edgewise.bench.evaluation.trace import written

TRACE = written(generated("a", 1))
TOLD = about("run", "edgewise bench run --trace a", {"trace": "a", "seed": 1, "speed": 1})


def connects(*seconds: float, kind: Kind = Kind.CONNECT) -> list[Record]:
    return [Record(kind=kind, at=0, seconds=each, tries=2) for each in seconds]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.begin(TOLD, TRACE)
    return made


def put(folder: RunFolder, case: str, records: list[Record]) -> None:
    writer = folder.writer(case)
    for record in records:
        writer.keep(record)
    writer.close()


def test_percentiles_leave_out_who_was_never_let_in_and_count_them() -> None:
    failed = Record(kind=Kind.CONNECT, at=0, seconds=400, failed="not let in")
    figures = figures_of([*connects(*(n / 10 for n in range(1, 11))), failed])["connect_s"]
    assert figures["n"] == 11
    assert figures["failed"] == 1
    assert (figures["p50"], figures["p80"], figures["max"]) == (0.5, 0.8, 1.0)


def test_memory_is_the_mean_and_the_most_of_all_samples() -> None:
    use = [
        Record(kind=Kind.USE, at=at, pods_mb=mb, pods_cpu=0.5, parts={"operator": (60.0, 0.1)})
        for at, mb in ((0, 10.0), (5, 20.0))
    ]
    figures = figures_of(use)
    assert figures["memory_mb"] == {"mean": 15.0, "max": 20.0}
    assert figures["cpu_percent"] == {"mean": 50.0, "max": 50.0}
    assert figures["parts"]["operator"]["cpu_percent"] == {"mean": 10.0, "max": 10.0}


def test_what_a_stopped_run_wrote_is_kept_and_its_case_is_run_again(folder: RunFolder) -> None:
    put(folder, "bare", connects(1, 2))
    with (folder.path / "bare.jsonl").open("ab") as file:
        file.write(b'{"kind":"conn')  # killed while it wrote
    assert [each.seconds for each in folder.records("bare")] == [1, 2]
    assert not folder.is_done("bare")
    folder.writer("bare").close()  # of a run that could not begin
    assert [each.seconds for each in folder.records("bare")] == [1, 2]
    put(folder, "bare", [*connects(1), Record(kind=Kind.DONE, at=9)])
    assert folder.is_done("bare")
    assert [each.seconds for each in folder.records("bare")] == [1, 0]


def test_a_run_goes_on_in_its_folder_and_no_other_run_does(folder: RunFolder) -> None:
    folder.begin(TOLD, TRACE)
    other = about("run", "edgewise bench run --speed 9", {"trace": "a", "seed": 1, "speed": 9})
    with pytest.raises(ResultsError, match=r"is of another run .edgewise bench run --trace a"):
        folder.begin(other, TRACE)
    with pytest.raises(ResultsError, match="is of another run"):
        folder.begin(TOLD, written(generated("a", 2)))


def test_a_run_does_not_go_on_with_another_commit(folder: RunFolder) -> None:
    later = msgspec.structs.replace(TOLD, commit="0123456789ab")
    with pytest.raises(ResultsError, match=r"was begun with Edgewise .* 0123456789ab: name"):
        folder.begin(later, TRACE)


def test_a_run_with_warm_pods_stands_beside_the_baselines_of_the_same_load(
    folder: RunFolder, tmp_path: Path
) -> None:
    for case in ("edgewise", "deployment", "bare"):
        put(folder, case, [*connects(1), Record(kind=Kind.DONE, at=9)])
    warm = RunFolder(tmp_path / "warm")
    warm.begin(about("run", "with warm", {**TOLD.options, "warm": 3}), TRACE)
    put(warm, "edgewise", [*connects(0.1), Record(kind=Kind.DONE, at=9)])
    other = RunFolder(tmp_path / "faster")
    other.begin(about("run", "faster", {**TOLD.options, "speed": 7}), TRACE)
    put(other, "session-deployment", connects(9))
    says, load, connect, *_ = run_chapter(warm, [folder, warm, other]).sections
    assert connect.table is not None
    assert [row[0] for row in connect.table.rows] == ["edgewise", "deployment", "bare"]
    assert connect.table.rows[0][3:5] == ["0.1", "0.1"]
    assert "deployment, bare: from the run `edgewise bench run --trace a`" in load.text
    assert "Connection beside deployment: lower at p5, p50, p80, p95, max" in says.points[0]


def test_a_case_that_another_command_measured_names_it(folder: RunFolder) -> None:
    for case, command in (("edgewise", TOLD.command), ("bare", "edgewise bench run --case bare")):
        put(folder, case, [*connects(1), Record(kind=Kind.DONE, at=9, command=command)])
    load = run_chapter(folder).sections[1]
    assert load.text.endswith(" bare: by `edgewise bench run --case bare`.")


def test_what_two_cases_use_is_compared_at_the_same_moments(folder: RunFolder) -> None:
    """Where a kubelet did not answer there is no sample, in one case and not in the other."""

    def use(*samples: tuple[float, float]) -> list[Record]:
        return [
            Record(kind=Kind.USE, at=at, pods_mb=mb, parts={"operator": (60.0, 0.1)})
            for at, mb in samples
        ]

    put(folder, "edgewise", use((0, 1), (10.2, 3), (15, 4)))
    put(folder, "deployment", use((0.1, 5), (5, 5), (10, 5)))
    sections = {section.name: section for section in run_chapter(folder).sections}
    ours, theirs = (folder.records(case) for case in ("edgewise", "deployment"))
    assert by_moment(ours, lambda each: each.pods_mb) == {0: 1, 2: 3, 3: 4}
    assert by_moment(theirs, lambda each: each.pods_mb) == {0: 5, 1: 5, 2: 5}
    assert "<svg" in sections["memory-difference"].svg
    assert "operator" in sections["memory-of-programs"].svg


def test_a_folder_of_another_version_is_refused_with_a_sentence(folder: RunFolder) -> None:
    path = folder.path / ABOUT
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | {"format": 99}))
    with pytest.raises(ResultsError, match="has format 99, and this version reads 1"):
        folder.about()
    path.write_text(json.dumps(told | {"surprise": 1}))
    with pytest.raises(ResultsError, match="was not written by this version"):
        folder.about()


def test_a_folder_with_other_files_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ResultsError, match="holds other files"):
        RunFolder(tmp_path).begin(TOLD, TRACE)


def test_a_run_that_found_no_room_begins_once_there_is_some(tmp_path: Path) -> None:
    for name in ("trace.jsonl", "about.part"):
        (tmp_path / name).write_bytes(TRACE[:99])
    made = RunFolder(tmp_path)
    made.begin(TOLD, TRACE)
    assert made.about() == TOLD
    assert (made.path / "trace.jsonl").read_bytes() == TRACE


def test_a_disk_without_room_is_told_in_a_sentence() -> None:
    writer = Writer(Path("/dev/full"))
    with pytest.raises(ResultsError, match="No space left on device; what is there is kept"):
        writer.keep(Record(kind=Kind.DONE, at=1))
    writer.close()


def test_a_page_shows_each_case_with_its_command_machine_and_commit(folder: RunFolder) -> None:
    use = [Record(kind=Kind.USE, at=at, pods_mb=at) for at in (0, 60, 120)]
    for case, seconds in (("edgewise", 1.0), ("deployment", 2.0), ("bare", 0.9)):
        recovered = connects(seconds, kind=Kind.RECOVER)
        put(folder, case, [*connects(seconds, seconds * 2), *recovered, *use])
    text = page([("Cases", [run_chapter(folder)]), ("Empty", [])])
    assert "edgewise bench run --trace a" in text
    assert f"{TOLD.machine.cores} cores" in text
    assert text.count("<svg") == 7
    assert "Not finished: edgewise, deployment, bare." in text
    assert "Empty" not in text
    for outside in ("<script", "<link", "<img", "@import"):
        assert outside not in text


def test_verdicts_say_where_it_is_better_and_where_not() -> None:
    def case(p50: float, top: float) -> dict[str, dict[str, float]]:
        spread = {"p50": p50, "max": top}
        return {"connect_s": spread, "recover_s": {}}

    told = verdicts({"edgewise": case(1, 3), "deployment": case(0.5, 9), "bare": case(0.8, 2)})
    assert told[0].startswith(
        "Connection beside deployment: lower at max; not lower at p50. Its pods"
    )
    assert "Its p50 is 1.25 times the floor." in told[1]
    assert "Recovery beside bare: not enough was measured." in told
    assert verdicts({"bare": case(1, 1)}) == ["Edgewise was not among the cases."]


def test_the_two_questions_are_answered_by_stored_runs_alone(tmp_path: Path) -> None:
    options = {"trace": "a", "seed": 1, "speed": 1, "clusters": 1}
    found = []
    for clusters in (1, 3):
        told = about("run", "edgewise bench run", options | {"clusters": clusters})
        made = RunFolder(tmp_path / f"run-{clusters}")
        made.begin(told, TRACE)
        for case in ("edgewise", "deployment", "session-deployment") if clusters == 1 else OURS:
            put(made, case, [*connects(1, 2), Record(kind=Kind.DONE, at=9)])
        found.append(made)
    first, second = answers(found)
    assert first.sections[0].points[0].startswith("deployment: connection p50 1 s, p80 2 s")
    assert [each.partition(":")[0] for each in second.sections[0].points] == [
        "1 cluster",
        "3 clusters",
    ]
    assert answers([]) == []


def test_runs_that_differ_in_one_thing_are_drawn_together(tmp_path: Path) -> None:
    options = {"trace": "a", "seed": 1, "speed": 1, "clusters": 1, "reuse_seconds": 0}
    kept = []
    changes: dict[str, dict[str, Any]] = {
        "run-a": {},
        "run-a-3": {"clusters": 3},
        "run-a-60": {"reuse_seconds": 60},
        "run-a-20": {"reuse_seconds": 20},
        "run-b": {"trace": "b", "clusters": 2},
    }
    for name, changed in changes.items():
        made = RunFolder(tmp_path / name)
        made.begin(about("run", f"edgewise bench {name}", options | changed), TRACE)
        use = [Record(kind=Kind.USE, at=1, pods_mb=9.0)]
        put(made, "edgewise", [*connects(1, 2), *use, Record(kind=Kind.DONE, at=9)])
        kept.append(made)
    clusters, reuse = comparisons(kept)
    assert (clusters.name, reuse.name) == ("more-clusters-run-a", "reuse-run-a")
    assert [section.name for section in clusters.sections if section.svg] == ["connect", "recover"]
    assert [section.name for section in reuse.sections if section.svg] == [
        "connect",
        "memory",
        "processor",
    ]
    assert [each.partition(",")[0] for each in clusters.sections[-1].points] == [
        "1 cluster: edgewise bench run-a",
        "3 clusters: edgewise bench run-a-3",
    ]
    table = reuse.sections[0].table
    assert table is not None
    assert [row[0] for row in table.rows] == ["0 s of reuse", "20 s of reuse", "60 s of reuse"]


OURS = ("edgewise",)


def used(*megabytes: float) -> list[Record]:
    return [Record(kind=Kind.USE, at=6.0 * n, pods_mb=mb) for n, mb in enumerate(megabytes)]


def test_memory_is_compared_minute_by_minute_of_the_trace() -> None:
    records = {"edgewise": used(10, 20, 5), "session-deployment": used(10, 18, 10), "bare": used(1)}
    assert memory_verdicts(records, 10) == [
        "Memory beside session-deployment: 0.92 times as much on average, 0.50 after the peak, "
        "less in 33 % of the minutes, 0.50 times as much at best; "
        "more than 5 % above it in 1 of 3 minutes."
    ]
    assert memory_verdicts({"bare": used(1)}, 1) == []


def test_whether_events_came_in_time_is_said() -> None:
    late = figures_of([Record(kind=Kind.EVENT, at=1, seconds=0.07)])
    (told,) = timing_verdict({"edgewise": late}, 10)
    assert told == (
        "No event began more than 70 ms late (p99: 70 ms at most), which misses the bound of "
        "50 ms, at 10 times the speed of the trace."
    )
    assert timing_verdict({"edgewise": figures_of([])}, 1) == []


def test_every_figure_of_a_bench_is_in_its_table(tmp_path: Path) -> None:
    figures = {"ratios": {"p50": 1.5}, "runs": [1, 2], "ok": True, "join_s": {"p50": 0.5}}
    store(tmp_path, about("join", "edgewise bench join", {}), figures)
    ((_, found),) = stored(tmp_path)
    assert dict(flat(found.figures)) == {
        "ratios.p50": "1.5",
        "runs": "1, 2",
        "ok": "True",
        "join_s.p50": "0.5",
    }
    chapter = stored_chapter(found, older=2)
    assert [section.title for section in chapter.sections] == ["Picture", "Figures"]
    assert chapter.sections[-1].text == "The newest of 3 stored runs."
    assert runs(tmp_path) == []


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "join").mkdir()
    (tmp_path / "join" / "x.json").write_bytes(msgspec.json.encode({"p50": 1}))
    with pytest.raises(ResultsError, match=r"x.json is no result of a bench"):
        list(stored(tmp_path))


@pytest.mark.parametrize("data", [b'{"x":' + b"[" * 9999, b'{"x":"\xff"}'], ids=["deep", "no text"])
def test_what_no_bench_has_written_is_refused_with_a_sentence(
    folder: RunFolder, data: bytes
) -> None:
    (folder.path / "bare.jsonl").write_bytes(data + b"\n")
    assert folder.records("bare") == []
    (folder.path / ABOUT).write_bytes(data)
    with pytest.raises(ResultsError, match="was not written by this version"):
        folder.about()
    (folder.path / "x.json").write_bytes(data)
    with pytest.raises(ResultsError, match=r"x.json is no result of a bench"):
        list(stored(folder.path.parent))


METRICS = """# HELP apiserver_request_total requests
apiserver_request_total{code="201",resource="pods",verb="POST"} 7
apiserver_request_total{code="200",resource="sessions",subresource="status",verb="PATCH"} 1.2e+01
apiserver_request_total{code="200",resource="pods",verb="LIST"} 100
apiserver_request_total{code="200",resource="leases",verb="PUT"} 1000
apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 50
"""


def test_writes_are_counted_without_reads_and_heartbeats() -> None:
    assert writes_in(METRICS) == 19
    served = [*connects(1, 2), *connects(1, kind=Kind.RECOVER)]
    done = Record(kind=Kind.DONE, at=9, api_writes=30, machine={"busy_percent": 50.0})
    figures = figures_of([*served, done])
    assert figures["api_writes_per_connection"] == 10.0
    assert figures["machine"] == {"busy_percent": 50.0}
    assert figures_of(served)["api_writes_per_connection"] is None
