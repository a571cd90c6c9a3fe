"""`edgewise tenant create`: a tenant with its quota, or nothing at all."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from edgewise.api.tenancy import Subject, Tenant, TenantSpec
from edgewise.cli.tenant import commands, slices
from edgewise.cli.tenant.commands import make
from edgewise.cli.tenant.reading import BadTenantOption
from edgewise.kube.client import Client
from edgewise.kube.documents import Listing
from edgewise.kube.errors import AlreadyExists, Invalid, NotFound

SPEC = TenantSpec(owners=[Subject(kind="User", name="alice")])


class Cluster:
    """In the place of a client: which objects there are, and which tenants are refused."""

    def __init__(self, *there: str, refuses: str = "", loses: bool = False) -> None:
        self.there = set(there)
        self.refuses, self.loses = refuses, loses

    async def get(self, kind: type[Any], name: str) -> None:
        if f"{kind.KIND.kind} {name}" not in self.there:
            raise NotFound(404, "NotFound", f"{name} not found", {"name": name})

    async def create(self, made: Any, *, dry_run: bool = False) -> None:
        what = f"{made.KIND.kind} {made.metadata.name}"
        if what in self.there:
            raise AlreadyExists(409, "AlreadyExists", f"{what} already exists")
        if isinstance(made, Tenant) and (self.refuses or (self.loses and not dry_run)):
            raise Invalid(422, "Invalid", self.refuses or "somebody was faster")
        if not dry_run:
            self.there.add(what)

    async def delete(self, kind: type[Any], name: str) -> None:
        self.there.remove(f"{kind.KIND.kind} {name}")


async def made_in(cluster: Cluster, **shared: int | str) -> set[str]:
    await make(cast(Client, cluster), "acme", SPEC, dict(shared))
    return cluster.there


async def test_a_tenant_and_its_quota() -> None:
    assert await made_in(Cluster()) == {"Tenant acme"}
    assert await made_in(Cluster(), pods=3) == {"Tenant acme", "TenantResourceQuota acme"}


async def test_a_tenant_that_is_there_keeps_what_it_may_use() -> None:
    cluster = Cluster("Tenant acme")
    with pytest.raises(BadTenantOption, match="there is a tenant acme already"):
        await made_in(cluster, pods=3)
    assert cluster.there == {"Tenant acme"}


@pytest.mark.parametrize("cluster", [Cluster(refuses="reserved"), Cluster(loses=True)])
async def test_no_quota_is_left_of_a_tenant_that_was_refused(cluster: Cluster) -> None:
    with pytest.raises(Invalid):
        await made_in(cluster, pods=3)
    assert cluster.there == set()


async def test_the_quota_of_nobody_is_not_taken_for_this_one() -> None:
    cluster = Cluster("TenantResourceQuota acme")
    with pytest.raises(BadTenantOption, match="there is a quota acme already, of no tenant"):
        await made_in(cluster, pods=3)
    assert cluster.there == {"TenantResourceQuota acme"}


class Nothing:
    async def list(self, kind: type[Any], namespace: str | None = None) -> Listing[Any]:
        return Listing(items=[], resource_version="1")


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        (commands, ["list"], "There are no tenants here."),
        (slices, ["list"], "There are no slices here."),
        (slices, ["list", "-n", "acme"], "There are no claims here."),
    ],
)
def test_where_nothing_is_a_list_says_so(
    module: Any, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "act_as", lambda *given: asyncio.run(given[-1](Nothing())))
    done = CliRunner().invoke(module.app, words)
    assert (done.stdout, done.stderr) == ("", f"{said}\n")
    assert CliRunner().invoke(module.app, [*words, "--json"]).stdout == "[]\n"
