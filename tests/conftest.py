"""What holds for every test."""

import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from edgewise.local.doctor import real_nodes_trouble
from tests.budget import ALL, BUDGETS, DOMAIN, folder_of, overdrawn, runs, too_long
from tests.sharing import in_order, next_scope, scope_of

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("edgewise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgewise")

# A shell lets what it runs in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent
# Only a whole run, on as many workers as the Makefile says, tells what a folder takes.
COUNTS = "EDGEWISE_TEST_BUDGET" in os.environ

_skipped: dict[str, str] = {}
_spent: Counter[str] = Counter()
_began = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--domain", default="", help="Only this domain, and what lies below it.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    domain = config.getoption("domain")
    if not domain or collection_path.suffix != ".py" or not collection_path.is_relative_to(TESTS):
        return None
    file = f"tests/{collection_path.relative_to(TESTS)}"
    return True if collection_path.name.startswith("test_") and not runs(file, domain) else None


def pytest_configure(config: pytest.Config) -> None:
    domain = config.getoption("domain")
    if domain and not any(TESTS.glob(f"*/{domain}/")):
        known = sorted({folder.name for folder in TESTS.glob("*/*/") if folder.name[0].isalpha()})
        raise pytest.UsageError(f"there are no tests of {domain!r}; there are: {', '.join(known)}")


@pytest.fixture(scope="session", autouse=True)
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What benches of tests measure is kept apart from what somebody measured here."""
    with pytest.MonkeyPatch.context() as changed:
        folder = tmp_path_factory.mktemp("results")
        changed.setenv("EDGEWISE_RESULTS", str(folder))
        yield folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers: which one gets what."""
    from xdist.scheduler import LoadFileScheduling

    class ByWhatTheyShare(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            worker = int(node.gateway.id.removeprefix("gw"))
            self.workqueue.move_to_end(next_scope(list(self.workqueue), worker), last=False)
            super()._assign_work_unit(node)

    return ByWhatTheyShare(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """What was imported stays until the end: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What shares a cluster runs in one piece, also without several workers.
    scopes = dict.fromkeys(scope_of(item.nodeid) for item in items)
    if hasattr(config, "workerinput"):
        scopes = dict.fromkeys(in_order(list(scopes)))
    place = {scope: number for number, scope in enumerate(scopes)}
    items.sort(key=lambda item: place[scope_of(item.nodeid)])
    trouble = real_nodes_trouble()
    if trouble:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason=trouble))


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr
        _skipped[report.nodeid] = str(reason[2] if isinstance(reason, tuple) else reason)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With several workers: what they skipped while collecting is known only to them."""
    _skipped.update(getattr(node, "workeroutput", {}).get("skipped", {}))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note_skip(report)
    _spent[folder_of(report.nodeid.partition("::")[0])] += report.duration


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COUNTS:
        terminalreporter.section("seconds of a worker, by folder")
        for folder, seconds in _spent.most_common():
            budget = BUDGETS.get(folder, DOMAIN)
            terminalreporter.write_line(f"{seconds:7.0f} of {budget:4.0f}  {folder}")
        minutes = (time.monotonic() - _began) / 60
        terminalreporter.write_line(f"{minutes:7.1f} of {ALL / 60:4.0f}  minutes in all")
        for sentence in _overdrawn():
            terminalreporter.write_line(sentence, red=True)
    if IN_CI and _skipped:
        terminalreporter.section("skipped in CI, which is a failure", red=True, bold=True)
        for test, reason in sorted(_skipped.items()):
            terminalreporter.write_line(f"{test}: {reason}")


def _overdrawn() -> list[str]:
    in_all = too_long(time.monotonic() - _began)
    return [*overdrawn(_spent).values(), *([in_all] if in_all else [])]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if output := getattr(session.config, "workeroutput", None):
        output["skipped"] = _skipped
    # A test that is skipped where it should run protects nobody.
    if IN_CI and _skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    over = COUNTS and not hasattr(session.config, "workerinput") and _overdrawn()
    if over and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
