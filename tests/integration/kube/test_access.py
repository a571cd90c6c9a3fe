"""Getting into a real API server, and being turned away by it."""

from __future__ import annotations

import asyncio
import base64
import datetime
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from edgewise.kube import errors
from edgewise.kube.client import Client
from edgewise.kube.config import Access, load_access
from edgewise.kube.kinds.core import ConfigMap, Pod, ServiceAccount


def configured(api_server: Any, tmp_path: Path, **parts: dict[str, Any]) -> Access:
    """The admin's kubeconfig with parts of its cluster or user replaced."""
    content = api_server.kubeconfig_content()
    for part in ("cluster", "user"):
        if part in parts:
            content[f"{part}s"][0][part] = parts[part]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return load_access(file, environment={})


async def account_token(client: Client, namespace: str, name: str = "worker") -> str:
    await client.apply(ServiceAccount.named(name, namespace))
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        body=msgspec.json.encode(body),
    )
    return str(msgspec.json.decode(answer)["status"]["token"])


async def allow_reading(client: Client, namespace: str, account: str = "worker") -> None:
    group = "rbac.authorization.k8s.io"
    await client.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": {"name": "reader", "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        }
    )
    await client.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader", "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
    )


async def until_allowed(client: Client, namespace: str) -> None:
    """The API server's own caches take a moment to learn of a new binding."""
    async with asyncio.timeout(20):
        while True:
            try:
                await client.list(ConfigMap, namespace)
            except errors.Forbidden:
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_token_file_lets_in_and_rbac_holds(
    client: Client, namespace: str, api_server: Any, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(await account_token(client, namespace))
    await allow_reading(client, namespace)
    access = configured(api_server, tmp_path, user={"tokenFile": "token"})
    async with Client(access) as worker:
        await until_allowed(worker, namespace)
        with pytest.raises(errors.Forbidden, match='cannot list resource "pods"'):
            await worker.list(Pod, namespace)


async def test_a_pod_gets_in_with_its_service_account(
    client: Client, namespace: str, api_server: Any, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(await account_token(client, namespace))
    (tmp_path / "ca.crt").write_bytes(api_server.authority.certificate_file.read_bytes())
    (tmp_path / "namespace").write_text(namespace)
    await allow_reading(client, namespace)
    environment = {
        "HOME": str(tmp_path),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(api_server.port),
    }
    access = load_access(environment=environment, service_account=tmp_path)
    assert access.namespace == namespace
    async with Client(access) as worker:
        await until_allowed(worker, namespace)


async def test_an_exec_plugin_lets_in(
    client: Client, namespace: str, api_server: Any, tmp_path: Path
) -> None:
    answer = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": await account_token(client, namespace)},
    }
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\nprint({msgspec.json.encode(answer).decode()!r})\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    await allow_reading(client, namespace)
    user = {"exec": {"command": "./plugin", "apiVersion": answer["apiVersion"]}}
    async with Client(configured(api_server, tmp_path, user=user)) as worker:
        await until_allowed(worker, namespace)


async def test_inline_certificates_and_another_server_name_let_in(
    api_server: Any, tmp_path: Path
) -> None:
    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    certificate, key = api_server.admin
    cluster = {
        "server": api_server.server,
        "certificate-authority-data": inline(api_server.authority.certificate_file),
        "tls-server-name": "kubernetes.default.svc",
    }
    user = {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}
    async with Client(configured(api_server, tmp_path, cluster=cluster, user=user)) as admin:
        await admin.list(Pod)


async def test_impersonation_is_passed_on(api_server: Any, tmp_path: Path) -> None:
    certificate, key = api_server.admin
    user = {"client-certificate": str(certificate), "client-key": str(key), "as": "somebody"}
    async with Client(configured(api_server, tmp_path, user=user)) as somebody:
        with pytest.raises(errors.Forbidden, match='User "somebody" cannot list'):
            await somebody.list(Pod)


async def test_a_wrong_token_is_unauthorized_with_advice(api_server: Any, tmp_path: Path) -> None:
    async with Client(configured(api_server, tmp_path, user={"token": "wrong"})) as stranger:
        with pytest.raises(errors.Unauthorized, match=r"does not accept the credentials .*log in"):
            await stranger.list(Pod)


async def test_a_certificate_that_expires_meanwhile_is_named_as_the_cause(
    api_server: Any, tmp_path: Path
) -> None:
    certificate, key = api_server.authority.issue(
        "expired", "admin", organization="system:masters", lifetime=datetime.timedelta(hours=-1)
    )
    content = api_server.kubeconfig_content()
    content["users"][0]["user"] = {
        "client-certificate": str(certificate),
        "client-key": str(key),
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    # It was still valid when the program started:
    access = load_access(file, environment={}, clock=lambda: 0.0)
    async with Client(access) as late:
        with pytest.raises(errors.Unauthorized, match=r"client certificate of .* expired on"):
            await late.list(Pod)


async def test_a_ca_that_is_not_the_clusters_is_untrusted(api_server: Any, tmp_path: Path) -> None:
    certificate, _ = api_server.admin
    cluster = {"server": api_server.server, "certificate-authority": str(certificate)}
    async with Client(configured(api_server, tmp_path, cluster=cluster)) as client:
        with pytest.raises(errors.Untrusted, match=r"not trusted: .*check certificate-authority"):
            await client.version()
    cluster = {"server": api_server.server, "insecure-skip-tls-verify": True}
    async with Client(configured(api_server, tmp_path, cluster=cluster)) as client:
        await client.version()


async def test_a_client_goes_on_after_the_api_server_has_restarted(
    client: Client, namespace: str, api_server: Any
) -> None:
    await client.create(ConfigMap.named("a"), namespace)
    await asyncio.to_thread(api_server.stop_api_server, kill=True)
    try:
        with pytest.raises(errors.Unreachable):
            await client.get(ConfigMap, "a", namespace)
    finally:
        await asyncio.to_thread(api_server.start_api_server)
    assert (await client.get(ConfigMap, "a", namespace)).metadata.name == "a"
