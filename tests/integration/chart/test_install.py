"""The chart, installed, upgraded and removed by real Helm on a real API server."""

import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from edgewise.agents.gateway.watch import RoutedSession
from edgewise.kube.admission import ValidatingWebhookConfiguration
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.core import Namespace, Pod, Secret
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.extensions import CustomResourceDefinition

CHART = Path(__file__).parents[3] / "deploy" / "chart"


@pytest.fixture
def helm(api_server):
    beside = Path(sys.executable).parent / "helm"
    program = beside if beside.exists() else shutil.which("helm")
    if not program:
        pytest.skip("helm is not installed")

    def run(*arguments):
        done = subprocess.run(
            [program, *arguments, "--kubeconfig", api_server.kubeconfig],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
async def installed(client, helm):
    namespace = f"edgewise-{secrets.token_hex(3)}"
    await client.create(Namespace.named(namespace))
    # The CRDs may be there already, from another test: Helm has to be told that it may.
    helm("install", "edge", CHART, "--namespace", namespace, "--take-ownership")
    yield namespace
    helm("uninstall", "edge", "--namespace", namespace, "--ignore-not-found")


async def keys(client, namespace):
    found = {}
    for name in ("edgewise-seat-key", "edgewise-control-token"):
        secret = await client.get(Secret, name, namespace)
        found[name] = dict(secret.data)
    return found


async def account(api_server, client, namespace, name, tmp_path):
    """A client with the rights of a service account, and no others."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.request("POST", path, body=msgspec.json.encode(body))
    token = msgspec.json.decode(answer)["status"]["token"]
    config = api_server.kubeconfig_content()
    config["users"] = [{"name": "admin", "user": {"token": token}}]
    file = tmp_path / f"{name}.json"
    file.write_bytes(msgspec.json.encode(config))
    return Client(load_access(file))


async def test_an_upgrade_keeps_the_keys_and_a_removal_keeps_the_sessions(client, helm, installed):
    before = await keys(client, installed)
    helm("upgrade", "edge", CHART, "--namespace", installed, "--set", "gateway.replicas=3")
    assert await keys(client, installed) == before
    await client.get(ValidatingWebhookConfiguration, "edgewise")

    helm("uninstall", "edge", "--namespace", installed)
    assert await keys(client, installed) == before
    await client.get(CustomResourceDefinition, "sessions.sessions.edgewise.dev")
    # Left behind, it would refuse every session for ever.
    with pytest.raises(NotFound):
        await client.get(ValidatingWebhookConfiguration, "edgewise")


async def test_the_gateway_may_watch_sessions_and_nothing_else(
    api_server, client, installed, tmp_path
):
    async with await account(
        api_server, client, installed, "edgewise-gateway", tmp_path
    ) as limited:
        listing = await limited.list(RoutedSession)
        assert listing.items == []
        for kind in (Pod, Secret):
            with pytest.raises(Forbidden):
                await limited.list(kind)
        with pytest.raises(Forbidden):
            await limited.get(Secret, "edgewise-seat-key", installed)
        with pytest.raises(Forbidden):
            await limited.delete(RoutedSession, "any", installed)


async def test_the_operator_reads_only_its_own_secrets(api_server, client, installed, tmp_path):
    async with await account(
        api_server, client, installed, "edgewise-operator", tmp_path
    ) as limited:
        await limited.list(Pod)
        await limited.get(Secret, "edgewise-seat-key", installed)
        with pytest.raises(Forbidden):
            await limited.list(Secret)
        with pytest.raises(Forbidden):
            await limited.get(Secret, "edgewise-control-token", installed)
        with pytest.raises(Forbidden):
            await limited.delete(Namespace, "default")
