"""A request that was approved gives nobody a role in a tenant that is disabled."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.tenancy import DISABLED
from edgewise.api.tenancy_requests import RequestedRole, RoleRequest, RoleRequestSpec
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.requests.apply import DISABLED_TENANT, give


class Server:
    def __init__(self, disabled_after: int) -> None:
        """The tenant is disabled after so many reads and writes."""
        self._left = disabled_after
        self.bindings: dict[str, RoleBinding] = {}

    def _disabled(self) -> bool:
        self._left -= 1
        return self._left < 0

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        disabled = self._disabled()
        if kind is Namespace:
            found = Namespace.named(name)
            found.metadata.labels = {DISABLED: "true"} if disabled else {}
            return found
        if name not in self.bindings:
            raise NotFound(404, "NotFound", name)
        return self.bindings[name]

    async def create(self, made: RoleBinding) -> None:
        self._disabled()
        self.bindings[made.metadata.name] = made

    async def delete(self, found: RoleBinding, **_: Any) -> None:
        del self.bindings[found.metadata.name]


def request() -> RoleRequest:
    role = RequestedRole(kind="ClusterRole", name="edgewise:tenant-viewer")
    made = RoleRequest.named("r", "acme", spec=RoleRequestSpec(requester="eve", role_ref=role))
    made.metadata.uid = "uid-r"
    return made


@pytest.mark.parametrize("when", [0, 1, 2])
async def test_nobody_gets_a_role_whenever_the_tenant_was_disabled(when: int) -> None:
    api: Any = Server(when)
    assert await give(api, request()) == DISABLED_TENANT
    assert not api.bindings


async def test_in_an_enabled_one_the_role_is_given() -> None:
    api: Any = Server(100)
    assert await give(api, request()) == ""
    assert list(api.bindings) == ["request-r"]
