"""`edgewise bench trace`: loads for `edgewise bench run`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgewise.bench.evaluation.generating import PRESETS, generated
from edgewise.bench.evaluation.trace import Do, Trace, TraceError, populations, read_file, written
from edgewise.cli.numbers import countable

app = typer.Typer()

_COLUMNS = 60


@app.callback()
def trace() -> None:
    """Loads: who comes and goes, and when."""


def complete_preset(incomplete: str) -> list[str]:
    return [name for name in PRESETS if name.startswith(incomplete)]


@app.command()
def generate(
    preset: Annotated[
        str, typer.Argument(help=f"One of {', '.join(PRESETS)}.", autocompletion=complete_preset)
    ],
    seed: Annotated[int, typer.Option(min=0, help="The same seed is the same trace.")] = 1,
    scale: Annotated[
        float,
        typer.Option(callback=countable, help="How many times as many clients and sessions."),
    ] = 1.0,
    minutes: Annotated[
        float | None, typer.Option(callback=countable, help="Only its first so many minutes.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file, rather than standard output.")
    ] = None,
) -> None:
    """Write a trace, one JSON event a line. The same preset and seed give the same one."""
    data = written(generated(preset, seed, scale=scale, minutes=minutes))
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        output.write_bytes(data)


@app.command()
def show(
    trace: Annotated[
        str, typer.Argument(help="A file, or the name of a preset.", autocompletion=complete_preset)
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of a preset.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Minute by minute, as JSON.")] = False,
) -> None:
    """Draw how many clients and sessions a trace has, minute by minute."""
    found = trace_of(trace, seed)
    rows = by_minute(found)
    if as_json:
        told = [
            {"minute": minute, "sessions": sessions, "clients": clients}
            for minute, (sessions, clients) in enumerate(rows)
        ]
        print(json.dumps({"peak": found.peak, "events": len(found.events), "minutes": told}))
        return
    kills = sum(event.do is Do.DELETE_POD for event in found.events)
    print(
        f"trace {found.preset}, seed {found.seed}: {len(found.events)} events in "
        f"{found.seconds / 60:g} minutes, at most {found.peak} clients in "
        f"{found.peak_sessions} sessions, {kills} pods deleted"
    )
    for minute, (sessions, clients) in enumerate(rows):
        bar = "█" * round(clients * _COLUMNS / max(1, found.peak))
        print(f"{minute:4} min {sessions:3} sessions {clients:4} clients {bar}".rstrip())


def trace_of(text: str, seed: int) -> Trace:
    """A preset by its name; anything else is a file."""
    if text in PRESETS:
        return generated(text, seed)
    if not Path(text).exists():
        raise TraceError(f"{text!r} is neither a preset ({', '.join(PRESETS)}) nor a file")
    return read_file(Path(text))


def by_minute(trace: Trace) -> list[tuple[int, int]]:
    """Sessions and clients at the end of each minute."""
    rows: list[tuple[int, int]] = []
    now = (0, 0)
    for at, sessions, clients in populations(trace.events):
        while len(rows) < int(at // 60):
            rows.append(now)
        now = (sessions, clients)
    rows += [now] * (int(trace.seconds // 60) - len(rows))
    return rows
