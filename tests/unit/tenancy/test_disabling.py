"""A tenant that is disabled loses its rights, whatever its people wrote on their RoleBindings."""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import DISABLED
from edgewise.kube.errors import Forbidden, Invalid
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RbacSubject, RoleBinding, RoleRef
from edgewise.tenancy.apply import Outcome, Writer
from edgewise.tenancy.names import EARLY, SUBJECTS, SUSPENDED
from edgewise.tenancy.orders import Correct, Create, Order, Suspend
from edgewise.tenancy.tree.plan import Plan, plan
from edgewise.tenancy.tree.seen import Branch
from tests.unit.tenancy.test_tree_plan import (
    CLOSED,
    DISABLED_TENANT,
    NOW,
    OFF,
    change,
    child,
    core,
    source,
    states,
    tree,
    wants,
    whole,
)

# As the API server counts: all annotations of an object together.
MOST_BYTES = 262_144
BOB = RbacSubject(kind="User", name="bob", api_group="rbac.authorization.k8s.io")


PAGE = 2


class Bindings:
    """Keeps RoleBindings, and refuses what the API server would. A list comes in pages."""

    def __init__(self, *bindings: RoleBinding) -> None:
        self.kept = {each.metadata.name: each for each in bindings}
        self.marked: Any = None
        self.with_subjects: list[int] = []  # when each page was asked for

    async def pages(self, *_: Any) -> AsyncGenerator[list[RoleBinding], None]:
        found = [*self.kept.values()]
        for begin in range(0, len(found), PAGE):
            self.with_subjects.append(sum(bool(each.subjects) for each in self.kept.values()))
            yield found[begin : begin + PAGE]

    async def patch(self, found: Any, body: Any) -> None:
        notes = body["metadata"]["annotations"]
        if isinstance(found, Namespace):
            self.marked = notes[SUSPENDED]
            return
        if len(notes[SUBJECTS] or "") > MOST_BYTES:
            raise Invalid(422, "Invalid", "metadata.annotations: Too long")
        subjects = msgspec.convert(body["subjects"], list[RbacSubject])
        if any(each.kind not in ("User", "Group", "ServiceAccount") for each in subjects):
            raise Invalid(422, "Invalid", "subjects[0].kind: Unsupported value")
        made = binding(found.metadata.name, *subjects)
        if notes[SUBJECTS] is not None:
            made.metadata.annotations = {SUBJECTS: notes[SUBJECTS]}
        self.kept[found.metadata.name] = made


def binding(name: str, *subjects: RbacSubject, kept: str | None = None) -> RoleBinding:
    made = RoleBinding.named(
        name,
        "acme",
        role_ref=RoleRef(api_group=BOB.api_group, kind="ClusterRole", name="view"),
        subjects=[*subjects],
    )
    if kept is not None:
        made.metadata.annotations = {SUBJECTS: kept}
    return made


async def suspend(bindings: Bindings, *, suspended: bool) -> list[str]:
    api: Any = bindings
    namespace = Namespace.named("acme")
    namespace.metadata.labels[DISABLED] = "true"
    outcome = await Writer(api).carry_out([Suspend(namespace, suspended)])
    assert isinstance(outcome, Outcome)
    assert bindings.marked == ("true" if suspended else None)
    return outcome.troubles


def left(bindings: Bindings) -> dict[str, list[str]]:
    return {
        name: [subject.name for subject in each.subjects or ()]
        for name, each in bindings.kept.items()
    }


async def test_subjects_are_kept_and_come_back() -> None:
    bindings = Bindings(binding("team", BOB))
    assert await suspend(bindings, suspended=True) == []
    assert await suspend(bindings, suspended=True) == []  # after a crash
    assert left(bindings) == {"team": []}
    assert await suspend(bindings, suspended=False) == []
    assert left(bindings) == {"team": ["bob"]}


async def test_bindings_without_end_are_emptied_page_by_page() -> None:
    bindings = Bindings(*(binding(f"team-{number}", BOB) for number in range(3 * PAGE)))
    assert await suspend(bindings, suspended=True) == []
    # So no more than a page of them is held at once, and one that is cut off goes on where it was.
    assert bindings.with_subjects == [3 * PAGE, 2 * PAGE, PAGE]
    assert not any(left(bindings).values())


@pytest.mark.parametrize("forged", ["", "[]", "nonsense", '[{"kind":"Queen","name":"bob"}]'])
async def test_an_annotation_of_the_tenants_own_keeps_nobody_in(forged: str) -> None:
    bindings = Bindings(binding("team", BOB, kept=forged))
    assert await suspend(bindings, suspended=True) == []
    assert left(bindings) == {"team": []}
    assert await suspend(bindings, suspended=False) == []
    assert left(bindings) == {"team": ["bob"]}


@pytest.mark.parametrize("forged", ["nonsense", '[{"kind":"Queen","name":"bob"}]', "[" * 100_000])
async def test_what_is_kept_and_cannot_be_read_keeps_no_tenant_disabled(forged: str) -> None:
    bindings = Bindings(binding("a", kept=forged), binding("team", BOB))
    await suspend(bindings, suspended=True)
    (trouble,) = await suspend(bindings, suspended=False)
    assert "RoleBinding acme/a" in trouble
    assert left(bindings) == {"a": [], "team": ["bob"]}


async def test_more_subjects_than_can_be_kept_keep_nobody_in() -> None:
    many = [RbacSubject(kind="User", name=f"{number:060}") for number in range(5000)]
    bindings = Bindings(binding("a", *many), binding("team", BOB))
    (trouble,) = await suspend(bindings, suspended=True)
    assert "RoleBinding acme/a had more subjects than can be kept" in trouble
    assert left(bindings) == {"a": [], "team": []}


async def test_a_binding_that_cannot_be_emptied_keeps_nobody_in_by_another_one() -> None:
    class Stubborn(Bindings):
        async def patch(self, found: Any, body: Any) -> None:
            if found.metadata.name == "a":
                raise Invalid(422, "Invalid", "a webhook says no")
            await super().patch(found, body)

    bindings = Stubborn(binding("a", BOB), binding("team", BOB))
    (trouble,) = await suspend(bindings, suspended=True)
    assert "RoleBinding acme/a stays as it is" in trouble
    assert "a webhook says no" in trouble
    assert left(bindings) == {"a": ["bob"], "team": []}


# What the API server refuses ------------------------------------------------------------


class Pass:
    """One pass of the controller over a tree: round after round, until nothing is wanted."""

    def __init__(self, *branches: Branch, refuses: str = "", where: str = "acme") -> None:
        self.branches = {each.name: each for each in branches}
        self.done: list[str] = []
        self._refuses, self._where = refuses, where

    async def run(self) -> Plan:
        stuck: dict[str, str] = {}
        undone: set[tuple[str, str]] = set()
        for _ in range(12):
            seen = tree(*self.branches.values(), stuck=stuck, undone=frozenset(undone))
            decided = plan(seen, NOW)
            if not decided.orders:
                return decided
            outcome = await Carried(self).carry_out(decided.orders)
            stuck |= outcome.stuck
            undone |= outcome.undone
        raise AssertionError(f"it never rests: {self.done}")

    def carry_out(self, order: Order) -> None:
        match order:
            case Suspend(namespace=about):
                word, name = "Suspend", about.metadata.name
            case Create(made=about) | Correct(found=about):
                word, name = about.KIND.kind, about.metadata.namespace or about.metadata.name
            case _:
                raise AssertionError(order)
        self.done.append(f"{word} {name}")
        if word == self._refuses and name == self._where:
            raise Forbidden(403, "Forbidden", "a webhook says no")
        branch = self.branches[name]
        assert branch.namespace is not None
        meta = branch.namespace.metadata
        match order:
            case Create(made=new):
                field = {"NetworkPolicy": "policy", "RoleBinding": "binding"}[word]
                branch = change(branch, **{field: new})
            case Correct(found=Namespace(), patch=patch):
                notes = meta.annotations | patch["metadata"].get("annotations", {})
                labels = meta.labels | patch["metadata"].get("labels", {})
                new = change(meta, annotations=notes, labels=labels)
                branch = change(branch, namespace=change(branch.namespace, metadata=new))
            case Correct(found=RoleBinding() as found, patch=patch):
                subjects = msgspec.convert(patch["subjects"], list[RbacSubject])
                branch = change(branch, binding=change(found, subjects=subjects))
            case Suspend():
                mark = "true" if DISABLED in meta.labels else EARLY
                new = change(meta, annotations={**meta.annotations, SUSPENDED: mark})
                branch = change(branch, namespace=change(branch.namespace, metadata=new))
        self.branches[name] = branch

    def people(self, name: str = "acme") -> list[str]:
        found = self.branches[name].binding
        assert found is not None
        return [each.name for each in found.subjects or ()]


class Carried(Writer):
    """Writes into a `Pass`."""

    def __init__(self, into: Pass) -> None:
        nothing: Any = None
        super().__init__(nothing)
        self._into = into

    async def _carry_out(self, order: Order, outcome: Outcome) -> None:
        self._into.carry_out(order)


def disabled_just_now(**lacks: None) -> Branch:
    return change(whole(core()), tenant=DISABLED_TENANT, enabled=False, **lacks)


@pytest.mark.parametrize("refused", ["Namespace", "NetworkPolicy", "RoleBinding", "Suspend"])
async def test_what_is_refused_keeps_no_door_of_a_disabled_tenant_open(refused: str) -> None:
    found = Pass(disabled_just_now(policy=None), refuses=refused)
    decided = await found.run()
    assert (found.people() == ["operator"]) is (refused != "RoleBinding")
    # Each is tried once in a pass, and none of them waits for another one's success.
    tried = [each for each in found.done if each == f"{refused} acme"]
    assert tried == [f"{refused} acme"]
    assert {"RoleBinding acme", "Suspend acme"} <= {*found.done}
    assert states(decided)["acme"] == "Failed/Refused"
    (said,) = (each.status for each in decided.says)
    assert any("a webhook says no" in each.message for each in said.conditions)


async def test_a_disabled_tenant_is_labelled_first_and_walled_last() -> None:
    found = Pass(disabled_just_now(policy=None))
    assert states(await found.run())["acme"] == "Disabled"
    order = ["Namespace acme", "RoleBinding acme", "Suspend acme", "NetworkPolicy acme"]
    assert found.done[:4] == order


async def test_bindings_made_before_the_label_held_are_emptied_when_it_does() -> None:
    found = Pass(disabled_just_now(), refuses="Namespace")
    await found.run()
    later = Pass(*found.branches.values())
    assert states(await later.run())["acme"] == "Disabled"
    assert later.done[:2] == ["Namespace acme", "Suspend acme"]


async def test_a_refused_disabled_namespace_holds_up_no_other_one() -> None:
    inside = change(whole(child()), tenant=DISABLED_TENANT, enabled=False, policy=None)
    found = Pass(disabled_just_now(), inside, refuses="NetworkPolicy", where="acme")
    found.branches["acme"] = change(found.branches["acme"], policy=None)
    decided = await found.run()
    assert states(decided) == {"acme": "Failed/Refused", "acme/team": "Disabled"}
    assert found.people("team-x") == ["operator"]
    assert "NetworkPolicy team-x" in found.done


def test_a_disabled_namespace_whose_parent_is_not_ready_is_closed() -> None:
    inside = change(whole(child()), tenant=DISABLED_TENANT, enabled=False)
    wanted = ["correct Namespace team-x", "create Namespace acme"]
    assert wants(plan(tree(OFF, inside), NOW)) == wanted


def test_an_expired_namespace_is_closed_before_it_is_deleted() -> None:
    end = datetime.datetime.fromtimestamp(NOW - 1, datetime.UTC)
    inside = whole(change(child(source(expires_at=end)), tenant=DISABLED_TENANT, enabled=False))
    assert wants(plan(tree(CLOSED, inside), NOW)) == ["empty bindings of team-x"]
