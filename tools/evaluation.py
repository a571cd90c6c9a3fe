"""Write the tables of docs/evaluation.md from docs/evaluation/results.json, and nothing by hand.

A table stands between `<!-- figures: KIND RUN… -->` and `<!-- end -->`. The results come from
`edgewise bench report --pictures docs/evaluation`. `--check` only says whether a table is stale.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evaluation.md"
RESULTS = ROOT / "docs" / "evaluation" / "results.json"
BLOCK = re.compile(r"(<!-- figures: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
ORDER = ("edgewise", "deployment", "session-deployment", "bare")
SHARES = ("p5", "p50", "p80", "p95", "max")
LATENCIES = {"connect": "connect_s", "recover": "recover_s"}

Run = dict[str, Any]


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    return str(int(value)) if value == int(value) else f"{value:.3g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cases_of(run: Run) -> list[tuple[str, Run]]:
    return [(case, run["cases"][case]) for case in ORDER if case in run["cases"]]


def latency(key: str, run: Run) -> str:
    floor = run["cases"].get("bare", {}).get(key, {}).get("p50")
    rows = []
    for case, found in cases_of(run):
        spread = found[key]
        ratio = spread["p50"] / floor if floor and "p50" in spread else None
        numbers = [shown(spread.get(name)) for name in ("n", "failed", *SHARES)]
        rows.append([f"`{case}`", *numbers, shown(ratio)])
    return table(["seconds", "n", "failed", *SHARES, "p50 / floor"], rows)


def use(run: Run) -> str:
    rows = []
    for case, found in cases_of(run):
        parts = found["parts"]
        ours = sum(parts[name]["memory_mb"]["mean"] for name in parts if name != "api-server")
        rows.append(
            [
                f"`{case}`",
                shown(found["memory_mb"].get("mean")),
                shown(found["memory_mb"].get("max")),
                shown(found["cpu_percent"].get("mean")),
                shown(ours) if ours else "–",
                shown(found["api_writes_per_connection"]),
                shown(found["late_ms"].get("p99")),
                shown(found["late_ms"].get("max")),
                shown(found["machine"].get("busy_percent")),
                shown(found["machine"].get("stolen_percent")),
            ]
        )
    head = ["", "pods, MB", "most, MB", "pods, % of a core", "operator and gateway, MB"]
    head += [
        "API writes a connection",
        "events late, ms p99",
        "most",
        "machine busy, %",
        "stolen, %",
    ]
    return table(head, rows)


def variants(*runs: Run) -> str:
    rows = []
    for run in runs:
        found = run["cases"]["edgewise"]
        numbers = [shown(found["connect_s"].get(name)) for name in SHARES]
        numbers += [shown(found["recover_s"].get(name)) for name in ("p50", "max")]
        numbers += [shown(found["memory_mb"].get("mean")), shown(found["cpu_percent"].get("mean"))]
        rows.append([words(run["about"]["options"]), *numbers])
    head = ["`edgewise` with", *(f"connect {name}, s" for name in SHARES), "recover p50, s", "max"]
    return table([*head, "pods, MB", "pods, % of a core"], rows)


def words(options: Run) -> str:
    said = []
    if options["clusters"] > 1:
        said.append(f"{options['clusters']} clusters")
    if options["warm"]:
        said.append(f"{options['warm']} warm pods")
    if options["reuse_seconds"]:
        across = " across sessions" if options["across"] else ""
        said.append(f"reuse for {options['reuse_seconds']} s{across}")
    return ", ".join(said) or "nothing of that"


def about(*runs: Run) -> str:
    rows = []
    for run in runs:
        told = run["about"]
        machine = told["machine"]
        name = machine.get("processor") or machine["system"]
        where = f"{machine['cores']} cores, {machine['memory_gb']} GB, {name}"
        rows.append([f"`{told['command']}`", where, f"`{told['commit']}`"])
    return table(["command", "machine", "commit"], rows)


def soak(bench: Run) -> str:
    figures = bench["figures"]
    first = ["seconds", *figures["steps"], "violations", "routes left", "ports left"]
    last = figures["weights"][-1]
    numbers = [figures["seconds"], *figures["steps"].values(), len(figures["violations"])]
    numbers += [last["routes"], last["ports"]]
    return table(first, [[shown(each) for each in numbers]])


KINDS: dict[str, Callable[..., str]] = {
    "connect": lambda run: latency(LATENCIES["connect"], run),
    "recover": lambda run: latency(LATENCIES["recover"], run),
    "use": use,
    "variants": variants,
    "about": about,
    "soak": soak,
}


def written(page: str, runs: dict[str, Run]) -> str:
    def block(found: re.Match[str]) -> str:
        kind, *names = found[2].split()
        return f"{found[1]}\n{KINDS[kind](*(runs[name] for name in names))}\n{found[3]}"

    return BLOCK.sub(block, page)


def main(arguments: list[str]) -> int:
    page = PAGE.read_text()
    results = json.loads(RESULTS.read_text())
    now = written(page, results["runs"] | results["benches"])
    if "--check" not in arguments:
        PAGE.write_text(now)
    elif now != page:
        sys.stderr.write(f"{PAGE.name}: not what the results say; run `make reference`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
