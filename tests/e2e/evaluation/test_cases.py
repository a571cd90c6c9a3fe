"""Every case serves a small trace on real nodes, with real clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.bench.evaluation.evaluation import CaseName, Ground, Variant, run_case
from edgewise.bench.evaluation.figures import figures_of
from edgewise.bench.evaluation.results import RunFolder, about
from edgewise.bench.evaluation.trace import Do, Event, Trace, written
from edgewise.bench.evaluation.workloads.http import HttpWorkload
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.domain import install_domains
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.local.platform import running_platform
from edgewise.sessions.domain import SESSIONS

SHARES = "nodes"

pytestmark = pytest.mark.root

TRACE = Trace(
    preset="small",
    seed=1,
    seconds=20,
    events=(
        Event(at=0, do=Do.CREATE_SESSION, session="s1"),
        Event(at=0, do=Do.CREATE_CLIENT, session="s1", client="c1"),
        Event(at=0.1, do=Do.CREATE_CLIENT, session="s1", client="c2"),
        Event(at=0.2, do=Do.CREATE_SESSION, session="s2"),
        Event(at=0.2, do=Do.CREATE_CLIENT, session="s2", client="c3"),
        Event(at=10, do=Do.DELETE_POD),
        Event(at=19, do=Do.DELETE_CLIENT, session="s1", client="c1"),
        Event(at=19.5, do=Do.DELETE_SESSION, session="s2"),
    ),
)


@pytest.mark.parametrize("name", CaseName)
async def test_a_case_lets_everybody_in_and_back_and_leaves_nothing(
    name: CaseName, nodes: LocalCluster, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(about("run", "test", {}), written(TRACE))
    writer = folder.writer(name)
    async with nodes.client() as client:
        await install_domains(client, [SESSIONS], SESSIONS.kinds)
        async with running_platform(nodes) as platform:
            ground = Ground(
                client=client,
                workload=HttpWorkload(PYTHON_IMAGE),
                parts={"operator": platform.operator.pid},
            )
            await run_case(
                name,
                [ground],
                TRACE,
                variant=Variant(),
                speed=1,
                writer=writer,
                tell=print,
            )
        assert await namespaces(client) == set()
    writer.close()
    assert folder.is_done(name)
    records = folder.records(name)
    figures = figures_of(records)
    assert (figures["connect_s"]["n"], figures["connect_s"]["failed"]) == (3, 0), records
    assert (figures["recover_s"]["n"], figures["recover_s"]["failed"]) == (1, 0)
    assert figures["parts"]["operator"]["memory_mb"]["max"] > 10


async def namespaces(client: Client) -> set[str]:
    names = {each.metadata.name for each in (await client.list(Namespace)).items}
    return names & {NAMESPACE}
