"""One cluster of real and simulated nodes for all tests that need nodes and nothing else.

It is there while files with `SHARES = "nodes"` run, which is in one piece, and gone after them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from edgewise.local.clusters import LocalCluster
from edgewise.testing.clusters import temporary_cluster
from tests.sharing import shared_by

NODES = "nodes"

_started = contextlib.ExitStack()
_cluster: list[LocalCluster] = []


@pytest.fixture(scope="session")
def nodes() -> LocalCluster:
    if not _cluster:
        made = temporary_cluster("nodes", nodes=2, simulated_nodes=2, region="eu-west")
        _cluster.append(_started.enter_context(made))
    return _cluster[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        if _cluster and (nextitem is None or not _needs_nodes(nextitem)):
            _cluster.clear()
            _started.close()


def _needs_nodes(item: pytest.Item) -> bool:
    return shared_by(item.nodeid.partition("::")[0]) == NODES
