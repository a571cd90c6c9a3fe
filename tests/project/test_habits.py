"""What contributors and CI are told to run is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOOKS: list[dict[str, Any]] = [
    hook
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repo["hooks"]
]


def test_ci_runs_the_command_that_the_readme_gives() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    steps = [step.get("run", "") for step in workflow["jobs"]["test"]["steps"]]
    assert any(step.endswith(" .ci/run") for step in steps)
    assert "make test" in (ROOT / ".ci/run").read_text()
    # A pull request from a stranger runs with no more than this.
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_fetches_nothing_and_runs_what_is_here(hook: dict[str, Any]) -> None:
    program, *arguments = hook["entry"].split()
    assert hook["language"] == "system"
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert program.startswith(".venv/bin/") or (program == "make" and arguments[-1] in targets)
    for argument in arguments:
        assert "/" not in argument or (ROOT / argument).exists()


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")))
def test_a_form_can_be_filled_in(form: Path) -> None:
    said = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert said == {"blank_issues_enabled": True}
        return
    ids = [part["id"] for part in said["body"] if part["type"] != "markdown"]
    assert said["name"]
    assert said["description"]
    assert len(ids) == len(set(ids)) >= 1
