"""Write the figures of docs/evaluation.md from docs/evaluation/results.json, and nothing by hand.

They stand between `<!-- figures: KIND RUN… -->` and `<!-- end -->`. A run may be a pattern, such as
`run-a-1-x1-reuse-*`; what is not stored is left out, and so is a case that was stopped. Where that
leaves nothing, or nothing to compare with, a sentence says so. `<!-- figures: picture NAME words
-->` shows a picture with these words. Results and pictures come from `edgewise bench report
--pictures docs/evaluation`; pictures that the page does not show are removed. `--check` only says
what is stale.
"""

import fnmatch
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evaluation.md"
PICTURES = ROOT / "docs" / "evaluation"
RESULTS = PICTURES / "results.json"
NOTHING = "No run of this is stored.\n"
BLOCK = re.compile(r"(<!-- figures: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
ORDER = ("edgewise", "deployment", "session-deployment", "bare")
SHARES = ("p5", "p50", "p80", "p95", "max")
ALL_SHARES = ("p5", "p50", "p80", "p95", "p99", "max")
LATE_MS = 50.0
USE = ("memory_mb", "cpu_percent")
LATENCIES = {"connect": "connect_s", "recover": "recover_s"}

Run = dict[str, Any]


class NotStoredError(Exception):
    """A block of the page asks for what no stored run has."""


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    whole = value == int(value) or abs(value) >= 1000
    return str(round(value)) if whole else f"{value:.3g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cases_of(run: Run) -> list[tuple[str, Run]]:
    return [(case, run["cases"][case]) for case in ORDER if case in run["cases"]]


def needs(run: Run, *cases: str) -> None:
    """Raises where the run does not have them all, with somebody let in and somebody back."""
    for case in cases:
        for key in LATENCIES.values():
            if "p50" not in run.get("cases", {}).get(case, {}).get(key, {}):
                raise NotStoredError


def latency(key: str, run: Run, *with_options: Run) -> str:
    """Of all cases, and of Edgewise with options that the other cases do not have."""
    floor = run["cases"].get("bare", {}).get(key, {}).get("p50")
    options = run["about"]["options"]
    found = [(f"`{case}`", each[key]) for case, each in cases_of(run)]
    ours = [
        (f"`edgewise`, {words(each['about']['options'], options)}", each["cases"]["edgewise"][key])
        for each in with_edgewise(*with_options)
    ]
    rows = []
    for name, spread in (*found[:1], *ours, *found[1:]):
        ratio = spread["p50"] / floor if floor and "p50" in spread else None
        numbers = [shown(spread.get(share)) for share in ("n", "failed", *ALL_SHARES)]
        rows.append([name, *numbers, shown(ratio)])
    return table(["seconds", "n", "failed", *ALL_SHARES, "p50 / floor"], rows)


def use(run: Run) -> str:
    rows = []
    for case, found in cases_of(run):
        rows.append(
            [
                f"`{case}`",
                shown(found["memory_mb"].get("mean")),
                shown(found["memory_mb"].get("max")),
                shown(found["cpu_percent"].get("mean")),
                shown(found["cpu_percent"].get("max")),
                shown(found["api_writes_per_connection"]),
                shown(found.get("reconnect_s", {}).get("n")),
                shown(found["late_ms"].get("p99")),
                shown(found["late_ms"].get("max")),
                shown(found["machine"].get("busy_percent")),
                shown(found["machine"].get("stolen_percent")),
            ]
        )
    head = ["", "pods, MB", "most, MB", "pods, % of a core", "most, %", "API writes a connection"]
    head += ["connections broken otherwise", "events late, ms p99", "most"]
    return table([*head, "machine busy, %", "stolen, %"], rows)


def programs(run: Run) -> str:
    """What serves the pods: programs of ours, and the API server."""
    rows = [
        [
            f"`{case}`: {name}",
            *(shown(part[key].get(each)) for key in USE for each in ("mean", "max")),
        ]
        for case, found in cases_of(run)
        for name, part in found["parts"].items()
    ]
    return table(["program", "MB", "most, MB", "% of a core", "most, %"], rows)


def with_edgewise(*runs: Run) -> list[Run]:
    return [run for run in runs if "edgewise" in run.get("cases", {})]


def others(*runs: Run) -> str:
    """Every case of every run, a line each."""
    rows = []
    for run in runs:
        options = run["about"]["options"]
        load = f"trace `{options['trace']}`, seed {options['seed']}, {words(options)}"
        for case, found in cases_of(run):
            connect, recover = found["connect_s"], found["recover_s"]
            numbers = [shown(connect.get(name)) for name in ("n", "p50", "p80", "p95", "max")]
            numbers += [shown(recover.get(name)) for name in ("n", "p50", "max")]
            numbers += [shown(connect["failed"] + recover["failed"])]
            rows.append([f"`{case}`", load, *numbers, shown(found["memory_mb"].get("mean"))])
    head = ["", "load", "connected", "p50, s", "p80", "p95", "max", "recovered", "p50, s", "max"]
    return table([*head, "never let in", "pods, MB"], rows)


def variants(*runs: Run) -> str:
    """The first run without any options, and then those that have some."""
    compared = with_edgewise(*runs)
    if len(compared) < 2:
        raise NotStoredError
    rows = []
    for run in compared:
        found = run["cases"]["edgewise"]
        numbers = [shown(found["connect_s"].get(name)) for name in SHARES]
        numbers += [shown(found["recover_s"].get(name)) for name in ("p50", "max")]
        numbers += [shown(found["memory_mb"].get("mean")), shown(found["cpu_percent"].get("mean"))]
        rows.append([words(run["about"]["options"], compared[0]["about"]["options"]), *numbers])
    head = ["`edgewise` with", *(f"connect {name}, s" for name in SHARES), "recover p50, s", "max"]
    return table([*head, "pods, MB", "pods, % of a core"], rows)


def words(options: Run, beside: Run | None = None) -> str:
    """What sets it apart; `beside` a run that was as fast, that is nothing to be said."""
    said = []
    if options["speed"] != (beside["speed"] if beside else 1):
        said.append(f"{shown(options['speed'])} times as fast")
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
        where = f"{machine['cores']} cores, {shown(machine['memory_gb'])} GB, {name}"
        # The cases of a run may have been measured by one command each.
        also = [found.get("command") for found in run.get("cases", {}).values()]
        for command in dict.fromkeys((told["command"], *filter(None, also))):
            rows.append([f"`{command}`", where, f"`{told['commit']}`"])
    return table(["command", "machine", "commit"], rows)


def soak(bench: Run) -> str:
    figures = bench["figures"]
    last = figures["weights"][-1]
    rows = [
        ["seconds", shown(figures["seconds"])],
        *([name, shown(count)] for name, count in figures["steps"].items()),
        ["**violations**", shown(len(figures["violations"]))],
        ["routes left", shown(last["routes"])],
        ["ports left", shown(last["ports"])],
    ]
    return table(["", "number"], rows)


def weights(bench: Run) -> str:
    """What each program holds with no client there, whenever it was weighed."""
    found = bench["figures"]["weights"]
    growth = bench["figures"].get("growth") or {"memory": {}, "descriptors": {}}
    head = [""]
    for name, unit in (("memory_mb", "MB"), ("descriptors", "descriptors")):
        head += [f"{unit} after {shown(round(each['after_s'] / 60, 1))} min" for each in found]
        head.append("growth" if name == "descriptors" else "last / second")
    rows = []
    for program in found[-1]["programs"]:
        row = [program]
        for name, grown in (("memory_mb", "memory"), ("descriptors", "descriptors")):
            row += [shown(each["programs"].get(program, {}).get(name)) for each in found]
            row.append(shown(growth[grown].get(program)))
        if kinds := growth.get("kinds", {}).get(program):
            row[-1] += f" ({', '.join(f'{kind} {more:+}' for kind, more in kinds.items())})"
        rows.append(row)
    return table(head, rows)


def benches(*found: Run) -> str:
    """What `edgewise bench report` has a chapter for, beside the runs."""
    rows = []
    for bench in found:
        told, machine = bench["about"], bench["figures"].get("machine", {})
        busy, stolen = machine.get("busy_percent"), machine.get("stolen_percent")
        rows.append([f"`{told['command']}`", f"`{told['commit']}`", shown(busy), shown(stolen)])
    return table(["command", "commit", "machine busy, %", "stolen, %"], rows)


def research(*runs: Run) -> str:
    """What the text says of its figures, and what the same figure is here: of the first run, which
    has all cases, of those with other numbers of clusters, and of those with reuse."""
    needs(runs[0], "edgewise", "deployment", "session-deployment")
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
    kept = [run for run in runs if run["about"]["options"]["reuse_seconds"]]
    for run in (*spread, *kept):
        needs(run, "edgewise")
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
    needs(run, "edgewise", "deployment", "session-deployment", "bare")
    for each in with_options:
        needs(each, "edgewise")
    cases = run["cases"]
    baselines = [cases[case] for case in ("deployment", "session-deployment")]
    rows = []
    for each in (run, *with_options):
        ours, options = each["cases"]["edgewise"], each["about"]["options"]
        # Nobody who starts a pod for a client is as fast as the fastest who find one.
        shares = SHARES if options["warm"] else SHARES[1:]
        name = words(options, run["about"]["options"]) if options["warm"] else "no warm pods"
        for word, key in LATENCIES.items():
            lower = [s for s in shares if all(ours[key][s] < base[key][s] for base in baselines)]
            missed = [s for s in shares if s not in lower]
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
    late = max(found["late_ms"]["max"] for _, found in cases_of(run))
    rows.append(_bar("events at most 50 ms late", late <= LATE_MS, f"{shown(late)} ms"))
    failed = sum(cases["edgewise"][key]["failed"] for key in LATENCIES.values())
    rows.append(_bar("no client that `edgewise` never let in", not failed, shown(failed)))
    return table(["wanted", "kept", "missed"], rows)


def _bar(wanted: str, kept: bool, figure: str) -> list[str]:
    return [wanted, figure, ""] if kept else [wanted, "", figure]


KINDS: dict[str, Callable[..., str]] = {
    "connect": lambda *runs: latency(LATENCIES["connect"], *runs),
    "recover": lambda *runs: latency(LATENCIES["recover"], *runs),
    "research": research,
    "bars": bars,
    "use": lambda *runs: use(runs[-1]),
    "programs": lambda *runs: programs(runs[-1]),
    "others": others,
    "variants": variants,
    "about": about,
    "soak": lambda *runs: soak(runs[-1]),
    "weights": lambda *runs: weights(runs[-1]),
    "benches": benches,
}


# These compare with the first run that they name.
BESIDE_THE_FIRST = ("connect", "recover", "research", "bars")


def finished(runs: dict[str, Run]) -> dict[str, Run]:
    """Without the cases that were stopped: half a trace is another load."""
    found = {}
    for name, run in runs.items():
        cases = {case: each for case, each in run["cases"].items() if each.get("whole", True)}
        if cases:
            found[name] = run | {"cases": cases}
    return found


def chosen(kind: str, names: list[str], runs: dict[str, Run]) -> list[Run]:
    """In the order of the page, each once."""
    found: dict[str, Run] = {}
    for name in names:
        fitting = sorted(fnmatch.filter(runs, name), key=_in_order)
        found |= {each: runs[each] for each in fitting if each not in found}
        if not found and kind in BESIDE_THE_FIRST:
            break
    if not found:
        raise NotStoredError
    return list(found.values())


def _in_order(name: str) -> list[Any]:
    """`reuse-10` after `reuse-5`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def shown_picture(name: str, words: list[str], pictures: list[str]) -> str:
    found = sorted(fnmatch.filter(pictures, f"{name}.svg"), key=_in_order)
    return "".join(f"![{' '.join(words)}](evaluation/{each})\n" for each in found)


def written(page: str, runs: dict[str, Run], pictures: list[str]) -> str:
    def block(found: re.Match[str]) -> str:
        kind, *names = found[2].split()
        if kind == "picture":
            text = shown_picture(names[0], names[1:], pictures)
        else:
            try:
                text = KINDS[kind](*chosen(kind, names, runs))
            except NotStoredError:
                text = NOTHING
        return f"{found[1]}\n{text}\n{found[3]}" if text else f"{found[1]}{found[3]}"

    return BLOCK.sub(block, page)


def main(arguments: list[str]) -> int:
    page = PAGE.read_text()
    results = json.loads(RESULTS.read_text())
    pictures = sorted(each.name for each in PICTURES.glob("*.svg"))
    now = written(page, finished(results["runs"]) | results["benches"], pictures)
    unused = [name for name in pictures if f"(evaluation/{name})" not in now]
    if "--check" not in arguments:
        PAGE.write_text(now)
        for name in unused:
            (PICTURES / name).unlink()
    elif now != page or unused:
        sys.stderr.write(f"{PAGE.name}: not what the results say; run `make reference`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
