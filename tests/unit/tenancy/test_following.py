"""Continuous inheritance where the API server does not let its parent be watched."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from edgewise.api.tenancy import Workspace
from edgewise.kube.errors import Forbidden
from edgewise.runtime.caching.cache import Cache
from edgewise.tenancy import following
from edgewise.tenancy.following import Follower
from tests.unit.tenancy.test_tree_plan import child, core, source, tree, whole


class Refused:
    """Caches whose first lists never come; the reason is known from the second look on."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.waited = 0
        self.closed: list[Any] = []

    def of(self, kind: Any, selection: Any) -> Cache[Any]:
        return Cache(kind, selection=selection)

    def error(self, *_: Any) -> Exception | None:
        return Forbidden(403, "Forbidden", "no rights to list") if self.waited else None

    async def wait_for(self, *_: Any) -> None:
        self.waited += 1
        await asyncio.Event().wait()

    def close(self, *what: Any) -> None:
        self.closed.append(what)


async def test_a_watch_that_is_refused_is_waited_for_once_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "FIRST_LIST", 0.05)
    caches: Any = Refused()
    space = Workspace(inherit=["RBAC", "ConfigMap"], sync="Continuous")
    seen = tree(whole(core()), whole(child(source(workspace=space))))
    follower, api = Follower(caches), cast(Any, None)  # nothing is written
    for _ in range(3):
        troubles: list[str] = []
        async with asyncio.timeout(20):
            assert not await follower.follow(seen, api, lambda: None, troubles)
    assert caches.waited == 1
    assert "ConfigMap of acme is not copied to team-x: " in "\n".join(troubles)
    assert "no rights to list" in troubles[0]
    follower.forget("acme")
    assert caches.closed
