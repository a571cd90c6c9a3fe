"""The tables of the evaluation are what its stored results say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = "docs/evaluation.md"
FILES = ("tools/evaluation.py", PAGE, "docs/evaluation/results.json")


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return tool(root, "--check")


def tool(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "tools" / "evaluation.py", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_table_is_stale() -> None:
    done = check(ROOT)
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_number_that_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / PAGE
    page.write_text(page.read_text().replace("| `bare` | ", "| `bare` | 9", 1))
    assert check(tmp_path).returncode == 1


# Figures of nothing that ever ran: only what the script makes of them is looked at.
SHARES = ("p5", "p50", "p80", "p95", "p99", "max")
MACHINE = {"cores": 2, "memory_gb": 24.0, "system": "Linux", "processor": ""}
MEANS = {"mean": 5.0, "max": 9.0}


def case(seconds: float) -> dict[str, Any]:
    spread = {"n": 7, "failed": 0} | dict.fromkeys(SHARES, seconds)
    return {
        "connect_s": spread,
        "recover_s": spread,
        "reconnect_s": {"n": 0, "failed": 0},
        "late_ms": dict.fromkeys(SHARES, 3.0),
        "memory_mb": MEANS,
        "cpu_percent": MEANS,
        "api_writes_per_connection": 8.0,
        "machine": {"busy_percent": 30.0, "stolen_percent": 0.0},
        "parts": {"operator": {"memory_mb": MEANS, "cpu_percent": MEANS}},
    }


def run(command: str, cases: dict[str, Any], **options: Any) -> dict[str, Any]:
    usual = {"trace": "a", "seed": 1, "speed": 1.0, "clusters": 1, "warm": 0}
    usual |= {"reuse_seconds": 0, "across": False}
    beside = {"mean": 0.5, "later": 0.4, "least": 0.3, "less_percent": 90.0}
    both = dict.fromkeys(("deployment", "session-deployment"), beside | {"above": 0, "minutes": 30})
    about = {"command": command, "commit": "c0ffee", "machine": MACHINE, "options": usual | options}
    return {"about": about, "cases": cases, "beside": {"memory": both, "cpu": both}}


def weighed(after: float, megabytes: float) -> dict[str, Any]:
    programs = {"operator": {"memory_mb": megabytes, "descriptors": 30}}
    return {"after_s": after, "programs": programs, "routes": 0, "ports": 0}


def results() -> dict[str, Any]:
    four = {"edgewise": case(1), "deployment": case(2), "session-deployment": case(3)}
    ours = {"edgewise": case(0.5)}
    soak = {
        "seconds": 3700,
        "steps": {"join": 400},
        "violations": [],
        "weights": [weighed(0, 60), weighed(600, 70), weighed(3600, 77)],
        "growth": {
            "memory": {"operator": 1.1},
            "descriptors": {"operator": 0},
            "kinds": {"operator": {"pipe": 1, "tcp": -1}},
        },
    }
    about = run("edgewise bench soak --minutes 60", {})["about"]
    return {
        "runs": {
            "run-a-1-x1": run("three", four | {"bare": case(0.9) | {"command": "floor"}}),
            "run-a-1-x1-warm-3": run("warm", ours, warm=3),
            "run-a-1-x3": run("fast", four | {"bare": case(0.9)}, speed=3.0),
            "run-a-1-x3-reuse-40": run("forty", ours, speed=3.0, reuse_seconds=40),
            "run-a-1-x3-reuse-5": run("five", ours, speed=3.0, reuse_seconds=5),
            "run-a-1-x3-3-clusters": run("clusters", ours, speed=3.0, clusters=3),
            "run-b-1-x10": run("other", four, trace="b", speed=10.0),
        },
        "benches": {
            "soak-minutes-60": {"about": about, "figures": soak},
            "join": {"about": about | {"command": "edgewise bench join"}, "figures": {}},
        },
    }


def made(root: Path, page: str, stored: dict[str, Any]) -> Path:
    (root / "tools").mkdir()
    shutil.copy(ROOT / FILES[0], root / FILES[0])
    (root / "docs" / "evaluation").mkdir(parents=True)
    (root / FILES[2]).write_text(json.dumps(stored))
    (root / PAGE).write_text(page)
    return root / PAGE


def test_the_page_takes_all_runs_that_the_evaluation_has(tmp_path: Path) -> None:
    """Every block of our own page, with results of everything."""
    page = made(tmp_path, (ROOT / PAGE).read_text(), results())
    done = tool(tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    text = page.read_text()
    assert "No run of this is stored" not in text
    for line in (
        "| `three` | 2 cores, 24 GB, Linux | `c0ffee` |\n| `floor` | 2 cores",
        "| connect, no warm pods: below both baselines | p50, p80, p95, max |  |",
        "| connect, 3 warm pods: below both baselines | p5, p50, p80, p95, max |  |",
        "| `edgewise`, 3 warm pods | 7 | 0 | 0.5 |",
        "| 5.7, reuse from 0 to 40 s |",
        "| 3 clusters | 0.5 |",
        "| `deployment` | trace `b`, seed 1, 10 times as fast | 7 | 2 |",
        "| operator | 60 | 70 | 77 | 1.1 | 30 | 30 | 30 | 0 (pipe +1, tcp -1) |",
        "| **violations** | 0 |",
        "| `edgewise bench join` | `c0ffee` |",
    ):
        assert line in text
    assert text.index("| reuse for 5 s |") < text.index("| reuse for 40 s |")
    assert check(tmp_path).returncode == 0


def test_what_no_run_has_is_said_and_no_number_stays(tmp_path: Path) -> None:
    page = made(tmp_path, (ROOT / PAGE).read_text(), {"runs": {}, "benches": {}})
    assert tool(tmp_path).returncode == 0
    blocks = page.read_text().split("<!-- figures: ")[1:]
    assert blocks
    for block in blocks:
        marker, _, rest = block.partition(" -->")
        said = rest.partition("<!-- end -->")[0].strip()
        assert said == ("" if marker.startswith("picture") else "No run of this is stored.")


def test_a_run_with_nothing_beside_it_is_no_comparison(tmp_path: Path) -> None:
    block = "<!-- figures: variants run-a-1-x3 run-a-1-x3-reuse-* -->\n<!-- end -->\n"
    stored = results()
    page = made(tmp_path, block, stored)
    assert tool(tmp_path).returncode == 0
    assert "| nothing of that |" in page.read_text()
    stored["runs"] = {"run-a-1-x3": stored["runs"]["run-a-1-x3"]}
    (tmp_path / FILES[2]).write_text(json.dumps(stored))
    assert tool(tmp_path).returncode == 0
    assert "No run of this is stored." in page.read_text()
    assert "| nothing of that |" not in page.read_text()


def test_a_case_that_was_stopped_is_no_figure(tmp_path: Path) -> None:
    block = "<!-- figures: connect run-a-1-x1 -->\n<!-- end -->\n"
    stored = results()
    cases = stored["runs"]["run-a-1-x1"]["cases"]
    cases["deployment"] |= {"whole": False}
    page = made(tmp_path, block, stored)
    assert tool(tmp_path).returncode == 0
    assert "| `edgewise` | 7 |" in page.read_text()
    assert "| `deployment` | 7 |" not in page.read_text()
    stored["runs"] = {"run-a-1-x1": run("three", {"edgewise": case(1) | {"whole": False}})}
    (tmp_path / FILES[2]).write_text(json.dumps(stored))
    assert tool(tmp_path).returncode == 0
    assert "No run of this is stored." in page.read_text()


def test_a_picture_is_shown_with_its_words_and_what_is_not_shown_goes(tmp_path: Path) -> None:
    block = "<!-- figures: picture run-* How long -->\n<!-- end -->\n"
    page = made(tmp_path, block, {"runs": {}, "benches": {}})
    for name in ("run-10.svg", "run-9.svg", "old.svg"):
        (page.parent / "evaluation" / name).touch()
    assert check(tmp_path).returncode == 1
    assert tool(tmp_path).returncode == 0
    shown = [line for line in page.read_text().splitlines() if line.startswith("!")]
    assert shown == ["![How long](evaluation/run-9.svg)", "![How long](evaluation/run-10.svg)"]
    assert not (page.parent / "evaluation" / "old.svg").exists()
