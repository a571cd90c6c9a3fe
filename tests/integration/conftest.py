"""A real API server (etcd + kube-apiserver on loopback) for the integration tests.

The programs are those of the engine, found the way everybody's are. There is
no controller manager and no scheduler: what a test creates stays as it was created,
so namespaces are made fresh for each test instead of being cleaned up.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Namespace
from edgewise.local.engine.finding import Engine, find_engine
from edgewise.runtime.webhooks.certificate_authority import key_usage
from edgewise.testing.ports import free_port

SHARES = "api-server"

START_DEADLINE = 60.0


class Authority:
    """A throw-away CA that writes PEM files into one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edgewise test CA")])
        certificate = (
            self._builder(self.name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False
            )
            .sign(self.key, hashes.SHA256())
        )
        self.certificate_file = directory / "ca.crt"
        self.certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        lifetime: datetime.timedelta = datetime.timedelta(days=1),
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=2))
            .not_valid_after(now + lifetime)
        )

    def issue(
        self,
        file_name: str,
        common_name: str,
        *,
        organization: str = "",
        server: bool = False,
        lifetime: datetime.timedelta = datetime.timedelta(days=1),
    ) -> tuple[Path, Path]:
        """Write `<file_name>.crt` and `.key`; a negative lifetime makes an expired one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            self._builder(x509.Name(subject), key, lifetime)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if server:
            names: list[x509.GeneralName] = [
                x509.DNSName("localhost"),
                x509.DNSName("kubernetes.default.svc"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        certificate_file = self.directory / f"{file_name}.crt"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, self.write_key(file_name, key)

    def write_key(self, file_name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        key_file = self.directory / f"{file_name}.key"
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return key_file


class ApiServer:
    """etcd and kube-apiserver as two child processes; ports stay the same over restarts."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.engine = engine
        self.directory = directory
        self.authority = Authority(directory)
        self.etcd_port, self.etcd_peer_port, self.port = free_port(), free_port(), free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self._serving = self.authority.issue("apiserver", "kube-apiserver", server=True)
        self.admin = self.authority.issue("admin", "admin", organization="system:masters")
        self._account_key = self.authority.write_key(
            "service-account", ec.generate_private_key(ec.SECP256R1())
        )
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self.kubeconfig_content()))
        self._etcd: subprocess.Popen[bytes] | None = None
        self._api_server: subprocess.Popen[bytes] | None = None

    def kubeconfig_content(self) -> dict[str, object]:
        certificate, key = self.admin
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.server,
                        "certificate-authority": str(self.authority.certificate_file),
                    },
                }
            ],
            "users": [
                {
                    "name": "admin",
                    "user": {"client-certificate": str(certificate), "client-key": str(key)},
                }
            ],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }

    def start(self) -> None:
        self.start_etcd()
        self.start_api_server()

    def stop(self) -> None:
        self.stop_api_server()
        self.stop_etcd()

    def start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self.etcd_port}"
        peer = f"http://127.0.0.1:{self.etcd_peer_port}"
        self._etcd = self._spawn(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            # As kubeadm sets it: without, kinds that never change get no bookmarks.
            "--watch-progress-notify-interval=5s",
        )
        self._await_ready(f"{client}/health", self._etcd, "etcd")

    def start_api_server(self) -> None:
        certificate, key = self._serving
        self._api_server = self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.authority.certificate_file}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._account_key}",
            f"--service-account-signing-key-file={self._account_key}",
            # Nobody makes the default service accounts here, so pods must do without.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--enable-priority-and-fairness=true",
        )
        self._await_ready(f"{self.server}/readyz", self._api_server, "kube-apiserver")

    def stop_api_server(self, *, kill: bool = False) -> None:
        self._end(self._api_server, kill=kill)
        self._api_server = None

    def stop_etcd(self, *, kill: bool = False) -> None:
        self._end(self._etcd, kill=kill)
        self._etcd = None

    def restart_api_server(self, *, kill: bool = False) -> None:
        """Blocks until it is ready again; from a coroutine, call it in a thread."""
        self.stop_api_server(kill=kill)
        self.start_api_server()

    def restart_etcd(self, *, kill: bool = False) -> None:
        self.stop_etcd(kill=kill)
        self.start_etcd()
        self._await_ready(f"{self.server}/readyz", self._api_server, "kube-apiserver")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                [self.engine.path(program), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                # Memory is there, and all cores are busy: collect less garbage, and do not
                # look for work on more than one.
                env={**os.environ, "GOGC": "400", "GOMAXPROCS": "1"},
            )

    def _end(self, process: subprocess.Popen[bytes] | None, *, kill: bool) -> None:
        if process is None:
            return
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=5)

    def _await_ready(self, url: str, process: subprocess.Popen[bytes] | None, name: str) -> None:
        context = ssl.create_default_context(cafile=str(self.authority.certificate_file))
        context.load_cert_chain(*self.admin)
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            if process is not None and process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(  # noqa: S310 - always our own loopback address
                    url, timeout=2, context=context if url.startswith("https") else None
                ):
                    return
            except OSError:
                time.sleep(0.05)
        log = (self.directory / f"{name}.log").read_text(errors="replace")
        raise RuntimeError(f"{name} did not become ready; the end of its log:\n{log[-3000:]}")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = ApiServer(find_engine(), tmp_path_factory.mktemp("api-server"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_access(api_server.kubeconfig)) as connected:
        yield connected


@pytest.fixture
async def namespace(client: Client) -> str:
    """A fresh namespace, so that tests do not see each other's objects."""
    name = f"test-{secrets.token_hex(4)}"
    await client.create(Namespace.named(name))
    return name
