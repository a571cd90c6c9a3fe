"""The public names of the runtime: one import for all, and none before it is asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import edgewise
import edgewise.runtime
from edgewise.runtime import __all__ as public

PACKAGES = sorted(Path(edgewise.__file__).parent.rglob("__init__.py"))
HEAVY = ("aiohttp", "cryptography", "prometheus_client", "msgspec")


@pytest.mark.parametrize("name", public)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(edgewise.runtime, name).__module__.startswith("edgewise.runtime.")


def test_the_type_checker_and_the_program_know_the_same_names() -> None:
    tree = ast.parse(Path(edgewise.runtime.__file__).read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    shown = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(shown) == sorted(public)
    for name, module in shown.items():
        assert edgewise.runtime._MODULE_OF[name] == str(module).removeprefix("edgewise.runtime.")


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Contoller'"):
        getattr(edgewise.runtime, "Contoller")  # noqa: B009 - mypy would know


def test_the_import_alone_loads_nothing_heavy() -> None:
    code = f"import sys, edgewise.runtime; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "package", PACKAGES, ids=lambda path: str(path.parent.relative_to(PACKAGES[0].parent))
)
def test_each_package_says_what_it_holds_and_where_to_begin(package: Path) -> None:
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    assert len(text.splitlines()) >= 3, "what does it hold, and where does a reader begin?"
