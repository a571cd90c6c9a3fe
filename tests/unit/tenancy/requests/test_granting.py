"""Nobody gives away more than they have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec

from edgewise.api.tenancy_requests import RoleRequest, TenantRequest
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.authorization import ResourceAttributes
from edgewise.kube.kinds.rbac import PolicyRule, Role
from edgewise.tenancy.requests import granting
from edgewise.tenancy.requests.granting import everything_in, why_not

RULES = [
    PolicyRule(api_groups=[""], resources=["pods", "pods/log"], verbs=["get", "list"]),
    PolicyRule(api_groups=["apps"], resources=["deployments"], verbs=["get"], resource_names=["a"]),
]
ROLE_REQUEST = msgspec.convert(
    {
        "metadata": {"name": "x", "namespace": "acme"},
        "spec": {"roleRef": {"kind": "Role", "name": "reader"}},
    },
    RoleRequest,
)


class Reads:
    """Has one role, or none."""

    def __init__(self, role: Role | None) -> None:
        self.role = role

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if self.role is None:
            raise NotFound(404, "NotFound", name)
        return self.role


async def asked(request: Any, allowed: Any, role: Role | None = None) -> str:
    async def ask(what: ResourceAttributes) -> bool:
        return bool(allowed(what))

    return await why_not(Reads(role), request, ask)  # type: ignore[arg-type]


async def test_who_may_bind_it_may_give_it() -> None:
    assert await asked(ROLE_REQUEST, lambda what: what.verb == "bind") == ""


async def test_who_holds_every_rule_may_give_it() -> None:
    role = Role.named("reader", "acme", rules=RULES)
    assert await asked(ROLE_REQUEST, lambda what: what.verb != "bind", role) == ""


async def test_one_right_that_is_missing_is_named() -> None:
    role = Role.named("reader", "acme", rules=RULES)
    sentence = await asked(
        ROLE_REQUEST, lambda what: what.verb != "bind" and what.subresource != "log", role
    )
    assert "get pods/log" in sentence


async def test_a_role_that_is_not_there_cannot_be_given() -> None:
    assert "no Role reader" in await asked(ROLE_REQUEST, lambda what: what.verb != "bind")


async def test_a_role_of_endless_rules_needs_bind(monkeypatch: Any) -> None:
    monkeypatch.setattr(granting, "MOST_QUESTIONS", 2)
    role = Role.named("reader", "acme", rules=RULES)
    assert "verb bind" in await asked(ROLE_REQUEST, lambda what: what.verb != "bind", role)


async def test_of_a_role_of_endless_rules_no_more_is_read_than_is_compared() -> None:
    """A rule of three lists of a thousand words stands for more rights than fit anywhere."""
    read = 0

    class Endless(list[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal read
            for number in itertools.count():
                read += 1
                assert read <= 2 * granting.MOST_QUESTIONS
                yield f"right-{number}"

    role = Role.named("reader", "acme", rules=RULES)
    role.rules = [PolicyRule(api_groups=[""], resources=["pods"], verbs=Endless())]
    assert "verb bind" in await asked(ROLE_REQUEST, lambda what: what.verb != "bind", role)


async def test_who_gives_a_tenant_may_create_one_and_its_quota() -> None:
    spec = {"tenantName": "acme", "resources": {"cpu": 1}}
    request = msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, TenantRequest)
    assert await asked(request, lambda _: True) == ""
    sentence = await asked(request, lambda what: what.resource == "tenants")
    assert "create tenantresourcequotas" in sentence


def test_every_single_right_is_asked_for() -> None:
    found = list(everything_in(RULES, "acme"))
    assert len(found) == 5
    assert {each.namespace for each in found} == {"acme"}
    assert ("deployments", "a") in {(each.resource, each.name) for each in found}
