"""The copy button of a page gives what the tests of that page run."""

import html
import importlib.util
import re
from pathlib import Path

import markdown
import pytest
import yaml

from tests.docs.pages import commands_of

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "tools" / "copied_commands.py"
SPEC = importlib.util.spec_from_file_location("copied_commands", HOOK)
assert SPEC is not None
assert SPEC.loader is not None
copied_commands = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(copied_commands)

BLOCKS = [
    body
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for body in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.M | re.S)
]


@pytest.mark.parametrize("body", BLOCKS)
def test_what_is_copied_is_what_is_run(body: str) -> None:
    run = "\n".join(command.text for command in commands_of(body))
    assert copied_commands.commands(body) == run


def rendered(page: str) -> str:
    """As MkDocs renders it, with the extensions that mkdocs.yml names."""
    named = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["markdown_extensions"]
    settings = {name: each for one in named if isinstance(one, dict) for name, each in one.items()}
    names = [one if isinstance(one, str) else next(iter(one)) for one in named]
    made = markdown.markdown(page, extensions=names, extension_configs=settings)
    return str(copied_commands.on_page_content(made))


def test_a_rendered_block_carries_its_commands() -> None:
    made = rendered('```console\n$ echo "a" && \\\n> ls <x\na\n$ cat <<END\n> b\n> END\n```\n')
    (copied,) = re.findall(r'data-copy="([^"]*)"', made)
    assert html.unescape(copied) == 'echo "a" && \\\nls <x\ncat <<END\nb\nEND'


def test_other_blocks_are_left_alone() -> None:
    assert "data-copy" not in rendered("```yaml\n$ x\n```\n")
