"""People log in with tokens of an OIDC issuer, by kubectl, and are who the prefix says they are."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewise.api.tenancy import Tenant, TenantSpec
from edgewise.local.clusters import LocalCluster
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from edgewise.testing.issuer import PREFIX, Issuer, running_issuer
from tests.e2e.tenancy.scene import established, prepare, running_operator, user


class Door:
    """A cluster that trusts an issuer, with two tenants: one owner comes by it, one does not."""

    def __init__(self, cluster: LocalCluster, issuer: Issuer, folder: Path) -> None:
        self.cluster, self.issuer, self.folder = cluster, issuer, folder

    def kubeconfig(self, person: dict[str, Any]) -> Path:
        written = yaml.safe_load(self.cluster.kubeconfig.read_text())
        written["users"][0]["user"] = person
        file = self.folder / "person"
        file.write_text(yaml.safe_dump(written))
        return file

    def kubectl(self, person: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.cluster.program("kubectl"), f"--kubeconfig={self.kubeconfig(person)}", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def by_token(self, token: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.kubectl({"token": token}, *words)


async def make_tenants(cluster: LocalCluster) -> None:
    async with cluster.client() as admin:
        for name, owner in (("acme", f"{PREFIX}alice"), ("other", "bob")):
            await admin.create(Tenant.named(name, spec=TenantSpec(owners=[user(owner)])))
            await established(admin, Tenant, name)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("login")
    with running_issuer(folder) as issuer:
        trusted = json.dumps(issuer.configuration())
        with temporary_cluster("login", controllers=False, authentication=trusted) as cluster:
            prepare(cluster)
            with running_operator(cluster, folder):
                asyncio.run(make_tenants(cluster))
                yield Door(cluster, issuer, folder)


GET = ("-n", "acme", "get", "configmaps")


async def logged_in(door: Door) -> None:
    """The API server fetches the issuer's keys a moment after it starts."""

    async def is_so() -> None:
        done = await asyncio.to_thread(door.by_token, door.issuer.token("alice"), *GET)
        assert done.returncode == 0, done.stderr

    await eventually(is_so, within=60)


async def test_an_owner_logs_in_with_a_token(door: Door) -> None:
    await logged_in(door)
    token = door.issuer.token("alice", groups=["staff"])
    who = json.loads(door.by_token(token, "auth", "whoami", "-o", "json").stdout)
    assert who["status"]["userInfo"]["username"] == f"{PREFIX}alice"
    assert f"{PREFIX}staff" in who["status"]["userInfo"]["groups"]
    made = door.by_token(token, "-n", "acme", "create", "configmap", "mine")
    assert made.returncode == 0, made.stderr


async def test_an_owner_logs_in_by_a_program_that_kubectl_asks(door: Door) -> None:
    await logged_in(door)
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": door.issuer.token("alice")},
    }
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(answer)!r})"],
        "interactiveMode": "Never",
    }
    done = door.kubectl({"exec": program}, *GET)
    assert done.returncode == 0, done.stderr


OTHER = ("-n", "other", "get", "configmaps")
NOT_IN = "Unauthorized|must be logged in"
# Who comes, with what, to where, and what refuses them.
ATTEMPTS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "an owner in another one's tenant": ({"name": "alice"}, OTHER, "cannot list"),
    "a namesake of an owner who does not come by the issuer": (
        {"name": "bob"},
        OTHER,
        f'User "{PREFIX}bob" cannot list',
    ),
    "somebody who calls their group that of the masters": (
        {"name": "mallory", "groups": ["system:masters"]},
        GET,
        "cannot list",
    ),
    "an owner after their token ended": ({"name": "alice", "seconds": -60}, GET, NOT_IN),
    "a token for another audience": ({"name": "alice", "audience": "others"}, GET, NOT_IN),
    "a token that another key signed": ({"name": "alice", "stranger": True}, GET, NOT_IN),
    "a token of another issuer": ({"name": "alice", "iss": "https://127.0.0.1:1"}, GET, NOT_IN),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_an_attempt_is_refused_and_the_owner_gets_in(door: Door, attempt: str) -> None:
    await logged_in(door)
    claims, words, says = ATTEMPTS[attempt]
    done = door.by_token(door.issuer.token(**claims), *words)
    assert done.returncode != 0, done.stdout
    assert any(each in done.stderr for each in says.split("|")), done.stderr


async def test_the_token_of_a_disabled_tenant_opens_nothing(door: Door) -> None:
    await logged_in(door)
    token = door.issuer.token("alice")

    async def says(words: str) -> None:
        done = await asyncio.to_thread(door.by_token, token, *GET)
        assert words in done.stderr, done.stderr
        assert (done.returncode == 0) == (not words), done.stderr

    async with door.cluster.client() as admin:
        await admin.patch(Tenant, "acme", body={"spec": {"enabled": False}})
        await eventually(lambda: says("cannot list"), within=30)
        await admin.patch(Tenant, "acme", body={"spec": {"enabled": True}})
        await eventually(lambda: says(""), within=30)
