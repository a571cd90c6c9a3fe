"""The chart on a real API server, and clients with the rights that it grants."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.local.engine.finding import find_engine
from tests.integration.conftest import ApiServer

CHART = Path(__file__).parents[3] / "deploy" / "chart"

Helm = Callable[..., str]

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


class AuditedApiServer(ApiServer):
    """Writes down what service accounts do, and is as strict as the strictest clusters."""

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        if program == "kube-apiserver":
            policy = self.directory / "audit-policy.json"
            policy.write_bytes(msgspec.json.encode(POLICY))
            arguments += (
                f"--audit-policy-file={policy}",
                f"--audit-log-path={self.audit_log}",
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            )
        return super()._spawn(program, *arguments)


@pytest.fixture(scope="module")
def api_server(tmp_path_factory) -> Iterator[AuditedApiServer]:
    server = AuditedApiServer(find_engine(), tmp_path_factory.mktemp("audited"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def helm(api_server) -> Helm:
    beside = Path(sys.executable).parent / "helm"
    program = beside if beside.exists() else shutil.which("helm")
    if not program:
        pytest.skip("helm is not installed")

    def run(*arguments: str) -> str:
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
async def installed(client: Client, helm: Helm) -> AsyncIterator[str]:
    """The namespace of a fresh installation."""
    namespace = f"edgewise-{secrets.token_hex(3)}"
    await client.create(Namespace.named(namespace))
    # The CRDs may be there already, from another test: Helm has to be told that it may.
    helm("install", "edge", CHART, "--namespace", namespace, "--take-ownership")
    yield namespace
    # Here are no nodes that could run the Job before it.
    helm("uninstall", "edge", "--namespace", namespace, "--ignore-not-found", "--no-hooks")


@pytest.fixture
def account(
    api_server, client: Client, installed: str, tmp_path: Path
) -> Callable[[str], Awaitable[Path]]:
    """The kubeconfig of one of the chart's service accounts."""

    async def kubeconfig(name: str) -> Path:
        path = f"/api/v1/namespaces/{installed}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await client.request("POST", path, body=msgspec.json.encode(body))
        token = msgspec.json.decode(answer)["status"]["token"]
        config = api_server.kubeconfig_content()
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        file = tmp_path / f"{name}.json"
        file.write_bytes(msgspec.json.encode(config))
        return file

    return kubeconfig
