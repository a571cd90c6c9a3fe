"""What holds for every test."""

import gc
import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from edgewise.local.doctor import real_nodes_trouble

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")

# The files of these folders share one cluster. It is there while they run, in one worker.
SHARING = ("tests/e2e/local/", "tests/e2e/sessions/")
# These are there, too, and do not need it.
NOT_SHARING = ("tests/e2e/local/test_local_clean.py", "tests/e2e/local/test_local_cli.py")
# Each page has clusters of its own, so they need not run one after the other.
PAGES = "tests/docs/test_pages.py::test_the_commands_of_a_page["

# These share one API server in each worker that runs any of them. Two workers do, which mostly
# wait, and a third one starts clusters meanwhile. Large pieces come first: so all end together.
WITH_API_SERVER = ("tests/chaos/", "tests/integration/")
WITH_CLUSTERS = (*SHARING, "tests/e2e/", "tests/docs/")
API_SERVERS = 2

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("edgewise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgewise")

# A shell lets what it runs in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_skipped: dict[str, str] = {}


def scope_of(nodeid: str) -> str:
    """What runs in one piece, in one worker."""
    file = nodeid.partition("::")[0]
    if nodeid.startswith(PAGES):
        return nodeid
    if file in NOT_SHARING:
        return file
    return next((folder for folder in SHARING if file.startswith(folder)), file)


def in_order(scopes: list[str]) -> list[str]:
    ranks = (*WITH_API_SERVER, *WITH_CLUSTERS, "")
    return sorted(
        scopes, key=lambda scope: next(n for n, each in enumerate(ranks) if scope.startswith(each))
    )


def next_scope(waiting: list[str], worker: int) -> str:
    """The first that suits this worker, else the first of all."""

    def suits(scope: str) -> bool:
        return scope.startswith(WITH_API_SERVER) == (worker < API_SERVERS)

    return next(filter(suits, waiting), waiting[0])


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
    if hasattr(config, "workerinput"):
        scopes = dict.fromkeys(scope_of(item.nodeid) for item in items)
        place = {scope: number for number, scope in enumerate(in_order(list(scopes)))}
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


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if IN_CI and _skipped:
        terminalreporter.section("skipped in CI, which is a failure", red=True, bold=True)
        for test, reason in sorted(_skipped.items()):
            terminalreporter.write_line(f"{test}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if output := getattr(session.config, "workeroutput", None):
        output["skipped"] = _skipped
    # A test that is skipped where it should run protects nobody.
    if IN_CI and _skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
