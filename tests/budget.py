"""How long the tests of each folder may take, in seconds of a worker as pytest reports them.

A domain has 400, in all its folders together; sessions, and the other large parts of the house,
what they took when that was written down. The whole run has 25 minutes. A machine may be slow: only
1.5 times as much is a failure.
"""

from __future__ import annotations

from collections import Counter

# What every domain stands on: tested with each of them.
BELOW = (
    "api",
    "client",
    "clusters",
    "domain",
    "exposure",
    "kube",
    "listeners",
    "runtime",
    "webhooks",
    "workloads",
)
DOMAIN = 400.0
TOLERANCE = 1.5
# What each took on two cores that did nothing else.
BUDGETS: dict[str, float] = {
    "server": 430.0,
    "chart": 330.0,  # it installs and removes what all domains have
    "local": 380.0,  # with places and network policies
    "docs": 430.0,  # the pages of all domains are run
    "sessions": 210.0,
    "runtime": 185.0,
}
ALL = 25 * 60.0


def folder_of(file: str) -> str:
    """The domain, or the part of the house, that a test file belongs to."""
    parts = file.split("/")
    return parts[2] if len(parts) > 3 else parts[min(1, len(parts) - 1)]


def overdrawn(spent: Counter[str]) -> dict[str, str]:
    """Folders that took too long, each with a sentence."""
    found = {}
    for folder, seconds in spent.items():
        budget = BUDGETS.get(folder, DOMAIN)
        if seconds > budget * TOLERANCE:
            found[folder] = (
                f"{folder} took {seconds:.0f} s of {budget:.0f}: make its tests cheaper, or move "
                "long ones to `make chaos`"
            )
    return found


def too_long(seconds: float) -> str:
    """Of the whole run; empty: it was not."""
    if seconds <= ALL * TOLERANCE:
        return ""
    return f"the whole run took {seconds / 60:.0f} minutes of {ALL / 60:.0f}"


def runs(file: str, domain: str) -> bool:
    """Whether a file is run for one domain: its own tests, and those of what lies below it."""
    return folder_of(file) in (domain, *BELOW)
