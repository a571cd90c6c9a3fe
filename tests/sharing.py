"""Which test files share what, and which worker runs them.

A file, or the conftest.py nearest to it, says so in one line: `SHARES = "nodes"`. The line is read
from the source, because the scheduler knows only the ids of tests, before anything is imported.

- `api-server`: one API server in each worker that runs any of them. Two workers do, which mostly
  wait; the others start clusters meanwhile.
- any other word: all files with that word share a cluster, so they run in one piece, in one worker.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]
API_SERVER = "api-server"
# So many workers run what shares an API server.
API_SERVERS = 2
# Each page has clusters of its own, so they need not run one after the other.
PAGES = "tests/docs/test_pages.py::test_the_commands_of_a_page["
# What starts clusters, where it shares none: it takes long, so it begins early.
WITH_CLUSTERS = ("tests/e2e/", "tests/docs/")


@functools.cache
def shared_by(file: str) -> str:
    """What a test file shares with others; empty: nothing."""
    path = ROOT / file
    for source in (path, *(folder / "conftest.py" for folder in path.parents)):
        said = _said_in(source)
        if said is not None:
            return said
        if source.parent == ROOT / "tests":
            break
    return ""


@functools.cache
def _said_in(source: Path) -> str | None:
    if not source.is_file():
        return None
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and [ast.unparse(target) for target in node.targets] == ["SHARES"]
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            return node.value.value
    return None


def scope_of(nodeid: str) -> str:
    """What runs in one piece, in one worker."""
    if nodeid.startswith(PAGES):
        return nodeid
    file = nodeid.partition("::")[0]
    shared = shared_by(file)
    return file if shared in ("", API_SERVER) else f"{file.split('/')[1]}: {shared}"


def has_api_server(scope: str) -> bool:
    return scope.startswith("tests/") and shared_by(scope.partition("::")[0]) == API_SERVER


def in_order(scopes: list[str]) -> list[str]:
    """Large pieces first: so all workers end together."""

    def rank(scope: str) -> int:
        if has_api_server(scope):
            return 0
        if not scope.startswith("tests/"):
            return 1
        return 2 if scope.startswith(WITH_CLUSTERS) else 3

    return sorted(scopes, key=rank)


def next_scope(waiting: list[str], worker: int) -> str:
    """The first that suits this worker, else the first of all."""

    def suits(scope: str) -> bool:
        return has_api_server(scope) == (worker < API_SERVERS)

    return next(filter(suits, waiting), waiting[0])
