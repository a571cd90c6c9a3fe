"""Runs the few tests that failed beside others once more, alone, and says which they were.

Tests of real clusters share two cores with two other workers. One that fails there and passes
alone is a test to mend, not a mistake of the product: it is named, for whoever reads the run. All
else stays failed: tests without a cluster, more than a few at once, a budget of time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 3
REAL_CLUSTERS = ("tests/e2e/", "tests/docs/", "tests/chaos/")


def worth_another_try(failed: list[str]) -> bool:
    return 0 < len(failed) <= MOST and all(each.startswith(REAL_CLUSTERS) for each in failed)


def main(code: str) -> int:
    """`code` is what pytest ended with: only after failed tests has it said which."""
    if code != "1":
        return int(code)
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not worth_another_try(failed):
        return 1
    names = "".join(f"  {each}\n" for each in failed)
    sys.stdout.write(f"\n{len(failed)} failed beside others; once more, alone:\n{names}")
    sys.stdout.flush()
    done = subprocess.run([sys.executable, "-m", "pytest", *failed], check=False)
    if done.returncode == 0:
        sys.stdout.write(f"Passed alone, and to be mended:\n{names}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
