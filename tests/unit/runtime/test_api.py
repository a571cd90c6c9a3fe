"""The API as a reconcile uses it, as far as no server is needed to tell."""

from __future__ import annotations

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.core import ConfigMap
from edgewise.kube.errors import Unreachable
from edgewise.runtime.api import Api
from edgewise.runtime.shared_caches import SharedCaches


async def test_deleting_without_a_name_does_not_delete_everything() -> None:
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        api = Api(client, SharedCaches(client))
        with pytest.raises(ValueError, match="without its name"):
            await api.delete(ConfigMap.named("", "shop"))


async def test_a_write_without_an_answer_is_remembered_for_a_while() -> None:
    now = 1000.0
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        api = Api(client, SharedCaches(client), monotonic=lambda: now)
        with pytest.raises(Unreachable):
            await api.get(ConfigMap, "a", "shop")
        assert api.quiet_for > 1e9
        with pytest.raises(Unreachable):
            await api.delete(ConfigMap.named("a", "shop"), unchanged=True)
        now += 7
        assert api.quiet_for == 7
