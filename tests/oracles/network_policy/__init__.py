"""An independent judge of NetworkPolicies: cyclonus, built from its pinned Go module.

`python -m tests.oracles.network_policy` builds it; `make test` does so beside the engine, with
which it shares most of what is compiled. No binary of it is committed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from edgewise.local.engine.build import remove_scratch
from edgewise.local.engine.cache import alone, cache_root
from edgewise.local.engine.go import find_go
from edgewise.local.engine.pins import BUILD_FLAGS, read_pins
from edgewise.local.engine.progress import silent

SOURCE = Path(__file__).parent
FILES = ("go.mod", "go.sum", "main.go")
_BUILD_SECONDS = 1500
_ANSWER_SECONDS = 120


def program() -> Path:
    """The judge's program, built unless it is there."""
    digest = hashlib.sha256()
    for name in FILES:
        digest.update((SOURCE / name).read_bytes())
    made = cache_root() / "oracles" / f"network-policy-{digest.hexdigest()[:16]}"
    if made.exists():
        return made
    with alone(made.with_suffix(".lock"), "oracle", silent):
        if not made.exists():
            _build(made)
    return made


def _build(made: Path) -> None:
    go = find_go(read_pins(), cache_root(), silent)
    partial = made.with_suffix(".partial")
    subprocess.run(
        [go.program, "build", "-C", SOURCE, *BUILD_FLAGS, "-ldflags", "-s -w", "-o", partial, "."],
        check=True,
        env={**os.environ, **go.environment, "CGO_ENABLED": "0", "GOWORK": "off"},
        timeout=_BUILD_SECONDS,
    )
    partial.replace(made)
    remove_scratch(go)


def judge(cases: list[dict[str, Any]]) -> list[list[tuple[bool, bool]]]:
    """For each case and each piece of its traffic: whether ingress and egress are allowed."""
    asked = "\n".join(map(json.dumps, cases))
    done = subprocess.run(
        [program()],
        input=asked,
        check=True,
        capture_output=True,
        text=True,
        timeout=_ANSWER_SECONDS,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [[(bool(each[0]), bool(each[1])) for each in answer] for answer in answers]
