"""What the API server refuses in one namespace of a tree holds up no other one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import MANAGED, Subject, Subtenant, Workspace
from edgewise.kube.errors import AlreadyExists, Forbidden, Invalid
from edgewise.kube.kinds.core import LimitRange
from edgewise.kube.objects import Key, Object
from edgewise.runtime.retry import TryAgainNow
from edgewise.tenancy.apply import Writer
from edgewise.tenancy.orders import Create
from edgewise.tenancy.tree.manifests import limits_of
from edgewise.tenancy.tree.plan import plan
from tests.unit.tenancy.test_tree_plan import (
    ALICE,
    NOW,
    child,
    core,
    made,
    source,
    states,
    tenant,
    tree,
    wants,
    whole,
)


class Server:
    """Refuses what it is told to, and keeps the rest."""

    def __init__(self, *there: Object, refuses: Exception | None = None, where: str = "") -> None:
        self.there = {(each.KIND.kind, each.key): each for each in there}
        self._refuses, self._where = refuses, where
        self.patches: list[Any] = []

    async def create(self, obj: Object) -> None:
        if self._refuses is not None and obj.metadata.namespace == self._where:
            raise self._refuses
        if (obj.KIND.kind, obj.key) in self.there:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.there[obj.KIND.kind, obj.key] = obj

    async def get(self, kind: type[Object], name: str, namespace: str) -> Object:
        return self.there[kind.KIND.kind, kind.named(name, namespace).key]

    async def patch(self, obj: Object, body: Any) -> None:
        self.patches.append((obj.key, body))


def squatter(**labels: str) -> LimitRange:
    found = LimitRange.named("tenancy", "team-x")
    found.metadata.labels, found.metadata.finalizers = labels, ["tenant.example/mine"]
    return found


@pytest.mark.parametrize("error", [Invalid(422, "Invalid", "bad"), Forbidden(403, "No", "no")])
async def test_a_refused_write_holds_up_its_own_namespace_only(error: Exception) -> None:
    good = child(source(workspace=Workspace(owner=ALICE)))
    bad = child(source("bad", subtenant=Subtenant(owner=Subject(kind="User", name="x"))), "bad-x")
    seen = tree(
        whole(core()),
        made(msgspec.structs.replace(bad, tenant=tenant("bad-x")), "namespace", "policy"),
        made(good, "namespace", "policy"),
    )
    decided = plan(seen, NOW)
    api: Any = Server(refuses=error, where="bad-x")
    outcome = await Writer(api).carry_out(decided.orders)
    assert list(outcome.stuck) == ["bad-x"]
    assert ("RoleBinding", Key("team-x", "tenancy")) in api.there
    # It is not tried again in this pass, and how all stand is said.
    later = tree(whole(core()), seen.branches["bad-x"], whole(good), stuck=outcome.stuck)
    decided = plan(later, NOW)
    assert not any("RoleBinding" in each for each in wants(decided))
    assert states(decided)["acme/bad"] == "Failed/Refused"
    assert states(decided)["acme/team"] == "Established"


async def test_a_name_that_the_operator_needs_cannot_be_taken() -> None:
    wanted = limits_of(child(), ["pods"])
    api: Any = Server(squatter())
    outcome = await Writer(api).carry_out([Create(wanted)])
    ((_, patch),) = api.patches
    assert patch["metadata"]["labels"][MANAGED] == "true"
    assert patch["metadata"]["finalizers"] == []
    assert patch["spec"] == msgspec.to_builtins(wanted)["spec"]
    assert "is the operator's now" in outcome.troubles[0]


async def test_what_is_ours_and_only_not_seen_yet_is_left_as_it_is() -> None:
    api: Any = Server(squatter(**{MANAGED: "true"}))
    outcome = await Writer(api).carry_out([Create(limits_of(child(), ["pods"]))])
    assert (api.patches, outcome.troubles) == ([], [])


async def test_a_tenant_that_is_there_is_looked_at_again() -> None:
    api: Any = Server(tenant())
    with pytest.raises(TryAgainNow):
        await Writer(api).carry_out([Create(tenant())])
