"""One name, one error: an `except` says by its name alone what it catches. One root for all."""

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

from tests.project.tracked import tracked_texts

# The SDK can be taken out of the house, and names errors as its own callers would.
SDK = "src/edgewise/client/"
# It runs with the standard library alone.
SIDECAR = "src/edgewise/agents/sidecar/"
ROOT = "ReadableError"

Where = Mapping[str, list[str]]
BUILT_IN = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


def errors_of(files: Iterable[tuple[str, str]]) -> Where:
    """Where each name of an error is defined. Names with _ in front are seen in one file only."""
    classes = [
        (node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases}, path)
        for path, text in files
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    errors = set(BUILT_IN)
    while more := {name for name, bases, _ in classes if bases & errors} - errors:
        errors |= more
    where: dict[str, list[str]] = defaultdict(list)
    for name, bases, path in classes:
        if bases & errors:
            where[name].append(path)
    return where


def twice(where: Where) -> list[str]:
    return [f"{name}: {', '.join(sorted(at))}" for name, at in where.items() if len(at) > 1]


def rootless(files: Iterable[tuple[str, str]]) -> list[str]:
    """Errors that begin a tree of their own."""
    return [
        f"{node.name}: {path}"
        for path, text in files
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and node.name != ROOT
        and (bases := {ast.unparse(base) for base in node.bases}) & BUILT_IN
        and ROOT not in bases
    ]


def test_all_errors_are_one_tree() -> None:
    files = [
        (path, text)
        for path, text in tracked_texts("src")
        if path.endswith(".py") and not path.startswith((SDK, SIDECAR))
    ]
    assert len(files) > 500
    assert rootless(files) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class Gone(Exception): ...", True),
        ("class Gone(OSError): ...", True),
        ("class Gone(ReadableError): ...", False),
        ("class Gone(ReadableError, OSError): ...", False),
        ("class Lost(Gone): ...", False),
        ("class _Gone(Exception): ...", False),
        ("class Gone(msgspec.Struct): ...", False),
    ],
)
def test_what_begins_a_tree(text: str, found: bool) -> None:
    assert bool(rootless([("a.py", text)])) is found


def test_no_two_errors_have_one_name() -> None:
    files = [
        (path, text)
        for path, text in tracked_texts("src")
        if path.endswith(".py") and not path.startswith(SDK)
    ]
    where = errors_of(files)
    assert len(where) > 50
    assert twice(where) == []


ONE = ("a.py", "class Gone(Exception): ...")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("class Gone(OSError): ...", True),
        ("class Base(Exception): ...\nclass Gone(Base): ...", True),
        ("import a\nclass Gone(a.Gone): ...", True),
        ("class Gone(msgspec.Struct): ...", False),
        ("class _Gone(Exception): ...", False),
    ],
)
def test_what_is_found(other: str, found: bool) -> None:
    assert bool(twice(errors_of([ONE, ("b.py", other)]))) is found
