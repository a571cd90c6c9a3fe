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


def latency(key: str, run: Run, *with_options: Run) -> str:
    """Of all cases, and of Edgewise with options that the other cases do not have."""
    floor = run["cases"].get("bare", {}).get(key, {}).get("p50")
    found = [(f"`{case}`", each[key]) for case, each in cases_of(run)]
    ours = [
        (f"`edgewise`, {words(each['about']['options'])}", each["cases"]["edgewise"][key])
        for each in with_options
    ]
    rows = []
    for name, spread in (*found[:1], *ours, *found[1:]):
        ratio = spread["p50"] / floor if floor and "p50" in spread else None
        numbers = [shown(spread.get(share)) for share in ("n", "failed", *SHARES)]
        rows.append([name, *numbers, shown(ratio)])
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
    if away := options.get("away"):
        said.append(f"{', '.join(shown(each) for each in away)} ms away")
    if options.get("choose") == "latency":
        said.append("the nearest ones")
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


def research(*runs: Run) -> str:
    """What the text says of its figures, and what the same figure is here: of the first run, which
    has all cases, of those with other numbers of clusters, and of those with reuse."""
    base, ours = runs[0], runs[0]["cases"]["edgewise"]
    memory, cpu = base["beside"]["memory"], base["beside"]["cpu"]
    theirs = [base["cases"][case] for case in ("deployment", "session-deployment")]
    static, scoped = memory["deployment"], memory["session-deployment"]
    rows = [
        [
            "5.2, memory beside one Deployment",
            "up to 50 % less; less in 80 % of the time",
            f"up to {percent(1 - static['least'])} less; "
            f"less in {shown(static['less_percent'])} % of the minutes",
        ],
        [
            "5.2, beside a Deployment for each session",
            "a little more while users come, less while they leave",
            f"{shown(scoped['mean'])} times as much on average, "
            f"{shown(scoped['later'])} after the peak",
        ],
        [
            "5.3, processor",
            "more than both",
            f"{shown(cpu['deployment']['mean'])} and {shown(cpu['session-deployment']['mean'])} "
            "times as much (pods alone)",
        ],
        [
            "5.4, connections",
            "80 % below 10 s, at most 32 s",
            f"80 % below {shown(ours['connect_s']['p80'])} s, "
            f"at most {shown(ours['connect_s']['max'])} s",
        ],
        [
            "5.5, recoveries",
            "at most 40 s; baselines up to 400 s",
            f"at most {shown(ours['recover_s']['max'])} s; baselines up to "
            f"{shown(max(each['recover_s']['max'] for each in theirs))} s",
        ],
    ]
    spread = [run for run in runs if run["about"]["options"]["clusters"] > 1]
    if spread:
        rows.append(
            [
                "5.6, recoveries with 1, 2, 3 clusters",
                "60 % below 10 s with two, 80 % with three",
                "80 % below "
                + ", ".join(
                    f"{shown(run['cases']['edgewise']['recover_s']['p80'])} s"
                    for run in sorted(
                        (base, *spread), key=lambda run: run["about"]["options"]["clusters"]
                    )
                ),
            ]
        )
    kept = [run for run in runs if run["about"]["options"]["reuse_seconds"]]
    if kept:
        longest = max(kept, key=lambda run: run["about"]["options"]["reuse_seconds"])
        seconds = longest["about"]["options"]["reuse_seconds"]
        after = longest["cases"]["edgewise"]
        rows.append(
            [
                f"5.7, reuse from 0 to {seconds} s",
                "the slowest connections faster, the median hardly; memory from 35 to 38 %, "
                "processor from 32 to 36 %",
                f"p95 from {shown(ours['connect_s']['p95'])} to "
                f"{shown(after['connect_s']['p95'])} s, "
                f"p50 from {shown(ours['connect_s']['p50'])} to "
                f"{shown(after['connect_s']['p50'])} s; "
                f"memory from {shown(ours['memory_mb']['mean'])} to "
                f"{shown(after['memory_mb']['mean'])} MB, "
                f"processor from {shown(ours['cpu_percent']['mean'])} to "
                f"{shown(after['cpu_percent']['mean'])} % of a core",
            ]
        )
    return table(["figure of the text", "the text, with WebRTC in a cloud", "here"], rows)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def bars(run: Run, *with_options: Run) -> str:
    """What was hoped for, and whether it is so: by the figures, and by nothing else."""
    cases = run["cases"]
    baselines = [cases[case] for case in ("deployment", "session-deployment")]
    rows = []
    for each in (run, *with_options):
        ours, name = each["cases"]["edgewise"], words(each["about"]["options"])
        for word, key in LATENCIES.items():
            lower = [s for s in SHARES if all(ours[key][s] < base[key][s] for base in baselines)]
            missed = [s for s in SHARES if s not in lower]
            rows.append(
                [f"{word}, {name}: below both baselines", ", ".join(lower), ", ".join(missed)]
            )
    ratio = cases["edgewise"]["connect_s"]["p50"] / cases["bare"]["connect_s"]["p50"]
    rows.append(_bar("p50 of connections at most 1.2 × `bare`", ratio <= 1.2, shown(ratio)))
    memory = run["beside"]["memory"]
    mean, scoped = memory["deployment"]["mean"], memory["session-deployment"]
    rows.append(_bar("memory below one Deployment on average", mean < 1, f"{shown(mean)} times"))
    said = f"{shown(scoped['above'])} of {shown(scoped['minutes'])} minutes above"
    rows.append(_bar("never 5 % above a Deployment for each session", not scoped["above"], said))
    later = scoped["later"]
    rows.append(_bar("below it while users leave", later < 1, f"{shown(later)} times"))
    return table(["wanted", "kept", "missed"], rows)


def _bar(wanted: str, kept: bool, figure: str) -> list[str]:
    return [wanted, figure, ""] if kept else [wanted, "", figure]


KINDS: dict[str, Callable[..., str]] = {
    "connect": lambda *runs: latency(LATENCIES["connect"], *runs),
    "recover": lambda *runs: latency(LATENCIES["recover"], *runs),
    "research": research,
    "bars": bars,
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
