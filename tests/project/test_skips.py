"""In CI a skipped test is a failure, and its name is said."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = ROOT / "tests" / "conftest.py"

TESTS = """
import pytest

def test_passes(): pass

@pytest.mark.skip(reason="not today")
def test_skipped(): pass

@pytest.mark.xfail(reason="known")
def test_expected_failure(): assert False
"""


def run(folder: Path, tests: str, **env: str) -> subprocess.CompletedProcess[str]:
    tree = folder / "tests" / "unit"
    tree.mkdir(parents=True, exist_ok=True)
    shutil.copy(CONFTEST, folder / "tests" / "conftest.py")
    (tree / "test_example.py").write_text(tests)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            folder,
            folder,
        ],
        # The conftest imports from `tests`, as it does at home.
        env={k: v for k, v in os.environ.items() if k != "CI"} | {"PYTHONPATH": str(ROOT)} | env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_at_home_a_skip_is_a_skip(tmp_path: Path) -> None:
    assert run(tmp_path, TESTS).returncode == 0


@pytest.mark.parametrize("value", ["true", "1"])
def test_in_ci_a_skip_is_a_failure(tmp_path: Path, value: str) -> None:
    done = run(tmp_path, TESTS, CI=value)
    assert done.returncode == 1
    assert "skipped in CI, which is a failure" in done.stdout
    assert "test_example.py::test_skipped: Skipped: not today" in done.stdout
    assert "test_expected_failure" not in done.stdout


def test_in_ci_a_module_that_skips_itself_is_a_failure_too(tmp_path: Path) -> None:
    tests = "import pytest\npytest.skip('no root', allow_module_level=True)\n"
    both = tests + "def test_never(): pass\n"
    other = tmp_path / "tests" / "unit" / "test_other.py"
    other.parent.mkdir(parents=True)
    other.write_text("def test_passes(): pass\n")
    done = run(tmp_path, both, CI="true")
    assert done.returncode == 1
    assert "no root" in done.stdout
