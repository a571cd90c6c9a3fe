"""`edgewise bench run`, `soak` and `report`: what is asked for wrongly is told in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from edgewise.bench.evaluation.evaluation import CaseName
from edgewise.bench.evaluation.generating import generated
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.results import ResultsError, RunFolder, about, store
from edgewise.bench.evaluation.trace import TraceError, written
from edgewise.cli.bench import report, run, soak, storing, trace
from edgewise.cli.bench.storing import RESULTS


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(RESULTS, str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("words", "sentence"),
    {
        "a speed that stands still": (["--speed", "0"], "say more than 0, up to 1000"),
        "a case that is none": (["--case", "magic"], "there is no case 'magic'"),
        "one distance for two clusters": (
            ["--clusters", "2", "--away", "5"],
            "1 distances for 2 clusters: say one for each",
        ),
        "a distance that is none": (["--away", "far"], "is not a latency"),
        "a way to choose that is none": (["--choose", "price"], "is not one of"),
        "clusters without an image": (["--kubeconfig", "x"], "name an image with python3"),
        "WebRTC elsewhere": (
            ["--kubeconfig", "x", "--image", "y", "--workload", "webrtc"],
            "into local clusters only",
        ),
    }.values(),
)
def test_a_run_that_cannot_be_is_refused(words: list[str], sentence: str, results: Path) -> None:
    done = CliRunner().invoke(run.app, words)
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.replace("│", " ").split())
    assert not results.exists()


@pytest.mark.parametrize(("app", "words"), [(run.app, ["--trace"]), (trace.app, ["show"])])
def test_a_trace_that_is_neither_preset_nor_file_is_told_both(
    app: typer.Typer, words: list[str]
) -> None:
    done = CliRunner().invoke(app, [*words, "nope"])
    assert isinstance(done.exception, TraceError)
    assert str(done.exception) == "'nope' is neither a preset (a, b, c, d, poster) nor a file"


def test_a_trace_that_was_cut_makes_no_folder(tmp_path: Path, results: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(written(generated("a", 1))[:-9])
    done = CliRunner().invoke(run.app, ["--trace", str(cut)])
    assert isinstance(done.exception, TraceError)
    assert not results.exists()


def test_a_folder_of_another_run_keeps_what_it_has(results: Path) -> None:
    made = RunFolder(results / "x")
    made.begin(about("run", "another", {"trace": "b"}), b"trace")
    before = sorted(each.read_bytes() for each in made.path.iterdir())
    done = CliRunner().invoke(run.app, ["--trace", "a", "-o", str(made.path)])
    assert isinstance(done.exception, ResultsError)
    assert sorted(each.read_bytes() for each in made.path.iterdir()) == before


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "1e9"])
def test_a_soak_has_a_length(minutes: str) -> None:
    assert CliRunner().invoke(soak.app, ["--minutes", minutes]).exit_code == 2


def test_a_report_needs_results_and_tells_every_figure_for_programs_too(
    results: Path, tmp_path: Path
) -> None:
    done = CliRunner().invoke(report.app, [str(results)])
    assert isinstance(done.exception, ResultsError)
    made = RunFolder(results / "run-a")
    options = {"trace": "a", "seed": 1, "speed": 1}
    made.begin(about("run", "edgewise bench run", options), written(generated("a", 1)))
    writer = made.writer("edgewise")
    writer.keep(Record(kind=Kind.CONNECT, at=1, seconds=0.5))
    writer.close()
    store(results, about("soak", "edgewise bench soak", {}), {"violations": []})
    pictures = tmp_path / "pictures"
    done = CliRunner().invoke(report.app, [str(results), "--pictures", str(pictures)])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert "<svg" in Path(told["report"]).read_text()
    assert sorted(told["pictures"]) == sorted(each.name for each in pictures.glob("*.svg"))
    figures = json.loads((pictures / "results.json").read_text())
    assert figures == json.loads(Path(told["results"]).read_text())
    case = figures["runs"]["run-a"]["cases"]["edgewise"]
    assert (case["connect_s"]["p50"], case["whole"]) == (0.5, False)
    assert figures["benches"]["soak"]["figures"] == {"violations": []}


def test_cases_that_are_stored_are_told_in_columns_and_as_json(results: Path) -> None:
    """Nothing is left to run, so that it needs no cluster."""
    made_trace = generated("a", 1)
    options = {"trace": "a", "seed": 1, "speed": 1.0, "clusters": 1, "nodes": 2, "warm": 0}
    options |= {"reuse_seconds": 0, "across": False, "workload": "http"}
    made = RunFolder(results / "run-a-1-x1")
    made.begin(about("run", "edgewise bench run", options), written(made_trace))
    for case in ("edgewise", "bare"):
        writer = made.writer(case)
        for kind, seconds in ((Kind.CONNECT, 0.5), (Kind.RECOVER, 2.0), (Kind.DONE, 0.0)):
            writer.keep(Record(kind=kind, at=1, seconds=seconds))
        writer.close()
    storing.begin()
    done = CliRunner().invoke(run.app, ["--case", "edgewise", "--case", "bare"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["cases"]["edgewise"]["recover_s"]["max"] == 2.0
    assert Path(told["report"]).exists()
    lines = [line.split() for line in done.stderr.splitlines()]
    assert ["edgewise", "1", *["0.5"] * 4, "1", "2", "2", "0", "–"] in lines


def test_cases_run_one_after_another_and_the_time_to_the_end_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    def measured(name: str, _grounds: object, folder: RunFolder, *_: object) -> None:
        if name == "bare" and "bare" not in ran:
            ran.append(name)
            raise KeyboardInterrupt
        ran.append(name)
        writer = folder.writer(name)
        writer.keep(Record(kind=Kind.DONE, at=180))
        writer.close()

    monkeypatch.setattr(run, "run_one", measured)
    monkeypatch.setattr(run, "python_image", lambda _progress: None)
    storing.begin()
    words = ["--case", "all", "--trace", "a", "--speed", "10"]
    stopped = CliRunner().invoke(run.app, words)
    told = [line for line in stopped.stderr.splitlines() if "to the end of all cases" in line]
    # Three minutes of each trace, and the time that its clusters take.
    assert told == [
        f"{name}: about {minutes} min to the end of all cases"
        for name, minutes in zip(CaseName, (15, 11, 8, 4), strict=True)
    ]
    again = CliRunner().invoke(run.app, words)
    assert again.exit_code == 0, again.output
    assert ran == [*CaseName, "bare"]
    assert "edgewise: stored already in" in again.stderr


def test_a_bench_with_other_options_is_another_one_on_the_page(results: Path) -> None:
    figures = {"ratios": {"join_s": {"p50": 0.5}}}
    for command in ("edgewise bench join", "edgewise bench join --simulated"):
        store(results, about("join", command, {}), figures)
        for each in (results / "join").glob("2*.json"):
            each.rename(each.with_name(f"{command.count('-')}.json"))  # both are of one second
    done = CliRunner().invoke(report.app, [str(results)])
    assert done.exit_code == 0, done.output
    page = (results / "report.html").read_text()
    assert "<h3>bench join</h3>" in page
    assert "<h3>bench join --simulated</h3>" in page
    told = json.loads((results / "results.json").read_text())
    assert set(told["benches"]) == {"join", "join-simulated"}
