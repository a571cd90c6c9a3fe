"""JSON from outside may be nested deeper than a decoder goes: that is caught like all nonsense.

Who decodes without naming it would fail with a traceback, and an attacker could have that.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "edgewise"
# Whose errors are caught by their callers, or who read what this program has written itself.
ELSEWHERE = {
    "kube/shallow.py",  # reads again without what lies too deep
}
CATCHES = {"RecursionError", "UNREADABLE_JSON", "Exception", "BaseException"}
PARTIAL = {"DecodeError", "ValidationError", "MsgspecError", "JSONDecodeError"}


def _decodes(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in ("decode", "loads")
        and not (isinstance(each.func.value, ast.Constant))
        for each in ast.walk(node)
    )


def _caught(handlers: list[ast.ExceptHandler]) -> set[str]:
    names: set[str] = set()
    for handler in handlers:
        for each in ast.walk(handler.type) if handler.type is not None else ():
            if isinstance(each, ast.Name):
                names.add(each.id)
            elif isinstance(each, ast.Attribute):
                names.add(each.attr)
    return names


def test_who_catches_bad_json_catches_deep_json_too() -> None:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        path = str(file.relative_to(SOURCE))
        if path in ELSEWHERE or path.startswith(("bench/", "testing/", "local/", "cli/")):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Try) and any(_decodes(each) for each in node.body):
                caught = _caught(node.handlers)
                if caught & PARTIAL and not caught & CATCHES:
                    found.append(f"{path}:{node.lineno}")
    assert found == []
