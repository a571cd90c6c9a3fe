"""What the tests of the runtime share."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.installation import install
from edgewise.kube.client import Client
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from tests.integration.runtime.widgets import Running, Widget, running


@pytest.fixture
async def widgets(client: Client) -> type[Widget]:
    """The type, served by the API server."""
    await install(client, [Widget])
    return Widget


@pytest.fixture
def run(namespace: str) -> Running:
    """`async with run(client, controller, …) as manager`."""

    def start(client: Client, *controllers: Controller[Any], **options: Any) -> Any:
        until_acting = options.pop("until_acting", True)
        # Tests share the API server, but do not meet.
        manager = Manager(client, controllers, namespace=namespace, **options)
        return running(manager, until_acting=until_acting)

    return start
