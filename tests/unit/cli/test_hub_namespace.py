"""Which namespace of a hub has a hub, and what is said to who chose another one."""

from typing import Any

import pytest

from edgewise.api.clusters import Cluster
from edgewise.cli.cluster.hub_namespace import NoHubHere, note_on_first, require_hub
from edgewise.kube.client import Client, Listing
from edgewise.kube.errors import error_from_response
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Object


class Hub(Client):
    """Answers lists from what it is told to hold."""

    def __init__(self, *held: Object, forbidden: bool = False) -> None:
        self.held = held
        self.forbidden = forbidden

    async def list(self, kind: type[Any], namespace: str | None = None, **_: Any) -> Listing[Any]:
        if self.forbidden:
            raise error_from_response(403, b"no")
        return Listing(
            items=[
                each
                for each in self.held
                if type(each) is kind and namespace in (None, each.metadata.namespace)
            ]
        )


PORTO = Cluster.named("porto", "edge")


@pytest.mark.parametrize(
    ("hub", "why"),
    [
        (Hub(), "it is the beginning of a hub"),
        (Hub(Cluster.named("x", "here"), PORTO), "there are two"),
        (Hub(Secret.named("token", "here"), PORTO), "tokens were made here before"),
        (Hub(forbidden=True), "somebody who may not look may still make tokens"),
    ],
)
async def test_a_namespace_will_do(hub: Hub, why: str) -> None:
    await require_hub(hub, "here")
    assert await note_on_first(hub, "edge") == "", why


async def test_an_empty_namespace_beside_a_hub_is_a_mistake() -> None:
    with pytest.raises(NoHubHere, match=r"no hub in namespace here, but there is one in edge"):
        await require_hub(Hub(PORTO), "here")
    assert "first one in here" in await note_on_first(Hub(PORTO), "here")


async def test_many_hubs_are_counted() -> None:
    hub = Hub(*(Cluster.named("x", f"edge-{number}") for number in range(5)))
    with pytest.raises(NoHubHere, match="edge-0, edge-1, edge-2 and 2 more"):
        await require_hub(hub, "here")
