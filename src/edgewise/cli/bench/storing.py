"""Every bench ends here: its figures are stored, and printed as the last line."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from edgewise.bench.evaluation.results import ResultsError, about, store
from edgewise.local.layout import state_root

RESULTS = "EDGEWISE_RESULTS"


def results_root() -> Path:
    """The folder that all benches share; the variable names another one."""
    named = os.environ.get(RESULTS)
    return Path(named) if named else state_root() / "results"


def command_line() -> str:
    return shlex.join(["edgewise", *sys.argv[1:]])


def finish(bench: str, figures: dict[str, Any]) -> None:
    """Print the figures, which are what was asked for, even where they cannot be stored."""
    try:
        path = store(results_root(), about(bench, command_line(), {}), figures)
        print(f"stored in {path}", file=sys.stderr, flush=True)
    except ResultsError as error:
        print(f"not stored: {error}", file=sys.stderr, flush=True)
    print(json.dumps(figures))
