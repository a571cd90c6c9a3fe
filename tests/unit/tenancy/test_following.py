"""Continuous inheritance where the API server does not let its parent be watched."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from edgewise.api.tenancy import MANAGED, STATE, SubNamespace, SubNamespaceStatus, Workspace
from edgewise.kube.conditions import Condition
from edgewise.kube.errors import Forbidden, Invalid
from edgewise.kube.kinds.rbac import RoleBinding, RoleRef
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.tenancy import following
from edgewise.tenancy.following import Follower
from edgewise.tenancy.names import COPY_OF, INHERITED
from edgewise.tenancy.tree.plan import Plan, plan
from edgewise.tenancy.tree.seen import Uncopied
from tests.unit.tenancy.test_tree_plan import ALICE, NOW, child, core, source, tree, whole


class Refused:
    """Caches whose first lists never come; the reason is known from the second look on."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.waited = 0
        self.closed: list[Any] = []

    def of(self, kind: Any, selection: Any, **_: Any) -> Cache[Any]:
        return Cache(kind, selection=selection)

    def error(self, *_: Any) -> Exception | None:
        return Forbidden(403, "Forbidden", "no rights to list") if self.waited else None

    async def wait_for(self, *_: Any) -> None:
        self.waited += 1
        await asyncio.Event().wait()

    def close(self, *what: Any) -> None:
        self.closed.append(what)


async def test_a_watch_that_is_refused_is_waited_for_once_and_is_a_condition_of_who_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "FIRST_LIST", 0.05)
    caches: Any = Refused()
    space = Workspace(inherit=["RBAC", "ConfigMap"], sync="Continuous")
    seen = tree(whole(core()), whole(child(source(workspace=space))))
    follower, api = Follower(caches), cast(Any, None)  # nothing is written
    for _ in range(3):
        async with asyncio.timeout(20):
            found = await follower.follow(seen, api, lambda: None)
        assert not found.complete
    assert caches.waited == 1
    decided = plan(msgspec.structs.replace(seen, uncopied=found.uncopied), NOW)
    ready, _, inherited = conditions(decided)
    assert (inherited.type, inherited.status, inherited.reason) == (
        "Inherited",
        "False",
        "NotCopied",
    )
    assert inherited.message.startswith("Role of acme is not copied to team-x: ")
    assert "no rights to list" in inherited.message
    assert inherited.message.endswith("; and 2 more")
    assert (ready.status, ready.message) == ("False", inherited.message)
    follower.forget("acme")
    assert caches.closed


def conditions(decided: Plan) -> list[Condition]:
    [said] = [each.status for each in decided.says if isinstance(each.about, SubNamespace)]
    assert isinstance(said, SubNamespaceStatus)
    return said.conditions


@pytest.mark.parametrize("sync", ["Once", "Continuous"])
def test_only_who_inherits_continuously_is_told_whether_all_is_copied(sync: Any) -> None:
    heir = source(workspace=Workspace(inherit=["RBAC"], sync=sync))
    branch = whole(child(heir))
    assert branch.namespace is not None
    branch.namespace.metadata.annotations = {INHERITED: "RBAC", STATE: "Established"}
    core_branch = whole(core())
    assert core_branch.namespace is not None
    core_branch.namespace.metadata.annotations = {STATE: "Established"}
    decided = plan(tree(core_branch, branch), NOW)
    assert not decided.orders
    told = [each.type for each in conditions(decided)]
    assert told == ["Ready", "Established"] + (["Inherited"] if sync == "Continuous" else [])


def test_the_condition_goes_with_the_inheritance() -> None:
    heir = source(workspace=Workspace(inherit=["RBAC"], sync="Continuous"))
    before = conditions(plan(tree(whole(core()), whole(child(heir))), NOW))
    assert [each.type for each in before] == ["Ready", "Established", "Inherited"]
    later = source(workspace=Workspace(owner=ALICE))
    later.status.conditions = before
    after = conditions(plan(tree(whole(core()), whole(child(later))), NOW))
    assert [each.type for each in after] == ["Ready", "Established"]


def test_a_namesake_is_told_and_leaves_the_namespace_ready() -> None:
    heir = source(workspace=Workspace(inherit=["RBAC"], sync="Continuous"))
    lacks = {"team-x": Uncopied("ConfigMap team-x/a was there before", on_purpose=True)}
    found = conditions(plan(tree(whole(core()), whole(child(heir)), uncopied=lacks), NOW))
    assert [each.status for each in found] == ["True", "True", "True"]
    assert found[2].message == "ConfigMap team-x/a was there before"


def test_a_namespace_whose_copies_follow_is_looked_at_every_time() -> None:
    heir = source(workspace=Workspace(inherit=["RBAC"], sync="Continuous"))
    decided = plan(tree(whole(core()), whole(child(heir))), NOW)
    assert "team-x" not in decided.rested


# Copies that cannot be changed ---------------------------------------------------------------


class Followed:
    """A parent and a child as caches, and an API server that lets nothing be changed."""

    def __init__(self, *objects: Object, refuses: Exception) -> None:
        self._objects = objects
        self._refuses = refuses
        self.done: list[str] = []

    def of(self, kind: type[Object], selection: Selection, **_: Any) -> Cache[Any]:
        found: Cache[Any] = Cache(kind, selection=selection)
        mine = [
            each
            for each in self._objects
            if each.KIND == kind.KIND and each.metadata.namespace == selection.namespace
        ]
        found.replace([msgspec.convert(msgspec.to_builtins(each), kind) for each in mine], "9")
        return found

    def error(self, *_: Any) -> None:
        return None

    async def wait_for(self, *_: Any) -> None:
        return None

    async def patch(self, *_: Any) -> None:
        raise self._refuses

    async def delete(self, obj: Object, **_: Any) -> None:
        self.done.append(f"delete {obj.metadata.name}")

    async def create(self, obj: Any) -> None:
        self.done.append(f"create {obj.metadata.name} as {obj.roleRef['name']}")


def bound(namespace: str, role: str, *, copy_of: str = "") -> RoleBinding:
    made = RoleBinding.named("bob", namespace, role_ref=RoleRef(kind="ClusterRole", name=role))
    made.metadata.uid, made.metadata.resource_version = f"uid-{role}", "1"
    if copy_of:
        made.metadata.labels, made.metadata.annotations = {MANAGED: "copy"}, {COPY_OF: copy_of}
    return made


@pytest.mark.parametrize(
    "error", [Invalid(422, "Invalid", "roleRef: immutable"), Forbidden(403, "Forbidden", "wider")]
)
async def test_a_binding_of_another_role_takes_the_old_role_from_the_child(
    error: Exception,
) -> None:
    there = (bound("acme", "viewer"), bound("team-x", "admin", copy_of="uid-admin"))
    world: Any = Followed(*there, refuses=error)
    space = Workspace(inherit=["RBAC"], sync="Continuous")
    seen = tree(whole(core()), whole(child(source(workspace=space))))
    await Follower(world).follow(seen, world, lambda: None)
    assert world.done == ["delete bob", "create bob as viewer"]
