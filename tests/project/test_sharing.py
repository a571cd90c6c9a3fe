"""Who runs where, and what it may cost."""

from collections import Counter
from pathlib import Path

import pytest

from tests import budget
from tests.sharing import ROOT, has_api_server, in_order, next_scope, scope_of, shared_by

API = "tests/integration/sessions/test_operator.py"
NODES = "tests/e2e/local/test_pods.py"
ALONE = "tests/e2e/local/test_clean.py"
UNIT = "tests/unit/kube/test_bounds.py"


@pytest.mark.parametrize(
    ("file", "shares"),
    [
        (API, "api-server"),
        (NODES, "nodes"),
        (ALONE, ""),
        (UNIT, ""),
        ("tests/e2e/test_demo.py", ""),
    ],
)
def test_a_file_or_the_folder_it_is_in_says_what_it_shares(file: str, shares: str) -> None:
    assert (ROOT / file).is_file()
    assert shared_by(file) == shares


def test_what_shares_a_cluster_is_one_piece() -> None:
    assert scope_of(f"{NODES}::test_one") == scope_of("tests/e2e/local/test_images.py::test_two")
    assert scope_of(f"{ALONE}::test_one") == ALONE
    assert scope_of(f"{API}::test_one[x]") == API


def test_two_workers_share_api_servers_and_the_others_start_clusters() -> None:
    waiting = in_order([UNIT, scope_of(NODES), API])
    assert waiting == [API, scope_of(NODES), UNIT]
    assert [next_scope(waiting, worker) for worker in range(4)] == [API, API, *[waiting[1]] * 2]
    assert next_scope([UNIT], 0) == UNIT
    assert has_api_server(API)


def test_a_folder_that_takes_too_long_is_named() -> None:
    spent = Counter({"games": budget.DOMAIN * 1.4, "tenancy": budget.DOMAIN * 1.6})
    assert list(budget.overdrawn(spent)) == ["tenancy"]
    assert "took 640 s of 400" in budget.overdrawn(spent)["tenancy"]


def test_the_whole_run_has_its_minutes() -> None:
    assert budget.too_long(37 * 60) == ""
    assert budget.too_long(38 * 60) == "the whole run took 38 minutes of 25"


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        (API, "sessions"),
        ("tests/unit/sessions/hub/test_turn.py", "sessions"),
        ("tests/e2e/test_demo.py", "e2e"),
    ],
)
def test_each_file_belongs_to_a_folder(file: str, folder: str) -> None:
    assert Path(ROOT / file).is_file()
    assert budget.folder_of(file) == folder


def test_one_domain_is_run_with_what_lies_below_it() -> None:
    assert budget.runs(API, "sessions")
    assert budget.runs(UNIT, "sessions")
    assert not budget.runs(NODES, "sessions")


def test_every_folder_below_the_domains_is_there() -> None:
    there = {folder.name for folder in (ROOT / "tests").glob("*/*/")}
    assert set(budget.BELOW) - there <= {"domain"}
