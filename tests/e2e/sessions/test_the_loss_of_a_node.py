"""A node that is lost is waited for, then done without. By its name the last file here: the
node takes its time to come back."""

import pytest

from edgewise.kube.kinds.core import Node
from edgewise.local import faults
from edgewise.workloads.node_loss import lost_since
from tests.e2e.sessions import workloads
from tests.e2e.sessions.conftest import Rooms
from tests.e2e.sessions.workloads import NAMESPACE

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]


async def test_a_lost_node_is_waited_for_and_then_done_without(rooms: Rooms) -> None:
    patience = 2
    await rooms.make("nodes", nodeLossSeconds=patience)
    [ann] = await rooms.join("nodes", "ann")
    old = ann.pods["server"]
    pod = rooms.pods.cache.find(old, NAMESPACE)
    assert pod is not None
    node = pod.node_name
    faults.cut(rooms.cluster, node)
    try:
        again = await rooms.recovered("nodes", "ann", old)
        since = lost_since(await rooms.client.get(Node, node))
        assert since is not None
        new = rooms.pods.cache.find(again.pods["server"], NAMESPACE)
        assert new is not None
        assert new.node_name != node
        assert again.endpoints == ann.endpoints
        assert (await rooms.ask(again.endpoints["server"]["http"]))["pod"] == new.metadata.name
        made = workloads.seconds(new.metadata.creation_timestamp)
        assert made >= since + patience - 1, "the node was given its time (to the second)"
    finally:
        faults.heal(rooms.cluster, node)
