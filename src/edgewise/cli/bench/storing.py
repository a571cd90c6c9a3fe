"""Every bench begins and ends here: its figures are stored, and printed as the last line."""

import json
import os
import shlex
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from edgewise.bench.evaluation.results import Machine, ResultsError, about, store
from edgewise.bench.machine_load import MUCH_STOLEN_PERCENT, MachineLoad
from edgewise.local.layout import state_root

RESULTS = "EDGEWISE_RESULTS"

_began: ContextVar[MachineLoad] = ContextVar("began")


def begin() -> None:
    """The group of all benches calls this, so that each knows what the host took meanwhile."""
    _began.set(MachineLoad.now())


def results_root() -> Path:
    """The folder that all benches share; the variable names another one."""
    named = os.environ.get(RESULTS)
    return Path(named) if named else state_root() / "results"


def command_line() -> str:
    return shlex.join(["edgewise", *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """What this machine is, and how much of it this command had since it began."""
    load = _began.get().until(MachineLoad.now())
    if load["stolen_percent"] > MUCH_STOLEN_PERCENT:
        print(
            f"meanwhile the host gave {load['stolen_percent']} % of this machine to others: "
            "the figures are theirs, too",
            file=sys.stderr,
            flush=True,
        )
    return {**msgspec.structs.asdict(Machine.this()), **load}


def finish(bench: str, figures: dict[str, Any]) -> None:
    """Print the figures, which are what was asked for, even where they cannot be stored.

    A bench may know its machine's load in parts (`machine`); they stand beside the whole.
    """
    told = figures | {"machine": machine() | figures.get("machine", {})}
    try:
        path = store(results_root(), about(bench, command_line(), {}), told)
        print(f"stored in {path}", file=sys.stderr, flush=True)
    except ResultsError as error:
        print(f"not stored: {error}", file=sys.stderr, flush=True)
    print(json.dumps(told))
