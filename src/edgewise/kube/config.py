"""Where the API server is and how to get in: from a kubeconfig, or from inside a pod."""

from __future__ import annotations

import ipaddress
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from edgewise.kube.credentials import (
    Credentials,
    ExecPlugin,
    Fixed,
    Identity,
    TokenFile,
    basic,
    bearer,
    header_text,
)
from edgewise.kube.errors import ConfigError
from edgewise.kube.kubeconfig import (
    Context,
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigUser,
    read_kubeconfig,
)
from edgewise.kube.proxies import choose_proxy
from edgewise.kube.tls import ClientCertificate, Pem, ServerTrust, make_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(msgspec.Struct, kw_only=True):
    """All that a client needs to reach one API server as one user."""

    server: str
    namespace: str = "default"
    trust: ServerTrust = ServerTrust()
    credentials: Credentials = msgspec.field(default_factory=Fixed)
    # The certificate that was configured, kept to explain a refusal by its expiry.
    certificate: ClientCertificate | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None
    # Compressing pays off over a real network only.
    compress: bool = False
    # Where all this came from, for messages: "context 'prod' of /home/me/.kube/config".
    origin: str = ""

    def __repr__(self) -> str:
        return f"Access({self.server}{f', {self.origin}' if self.origin else ''})"


def load_access(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Callable[[], float] = time.time,
) -> Access:
    """The file that is named, else $KUBECONFIG, else ~/.kube/config, else the pod's account."""
    environment = os.environ if environment is None else environment
    files = _kubeconfig_files(kubeconfig, environment)
    if files:
        return _from_kubeconfig(read_kubeconfig(files), context, environment, clock)
    if "KUBERNETES_SERVICE_HOST" in environment and context is None:
        return _in_cluster(environment, service_account)
    raise ConfigError(
        "no kubeconfig was found: name one with --kubeconfig, set KUBECONFIG, or put it at "
        "~/.kube/config"
    )


def _kubeconfig_files(named: str | Path | None, environment: Mapping[str, str]) -> list[Path]:
    if named is not None and str(named):
        return [Path(named).expanduser()]
    if listed := environment.get("KUBECONFIG", ""):
        files = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
        present = [file for file in files if file.exists()]
        if not present:
            raise ConfigError(f"KUBECONFIG names {listed}, but there is no such file")
        return present
    home = environment.get("HOME", "")
    standard = Path(home or "~").expanduser() / ".kube" / "config"
    return [standard] if standard.exists() else []


def _from_kubeconfig(
    config: Kubeconfig,
    wanted: str | None,
    environment: Mapping[str, str],
    clock: Callable[[], float],
) -> Access:
    name, context = _choose_context(config, wanted)
    origin = f"context {name!r} of {config.origin}"
    cluster = config.clusters.get(context.cluster)
    if cluster is None:
        raise ConfigError(
            f"{origin} names the cluster {context.cluster!r}, which is not there"
            f"{_choices('clusters', config.clusters)}"
        )
    user = config.users.get(context.user) if context.user else KubeconfigUser()
    if user is None:
        raise ConfigError(
            f"{origin} names the user {context.user!r}, which is not there"
            f"{_choices('users', config.users)}"
        )
    server = _checked_server(cluster.server, origin)
    certificate = _client_certificate(user, origin)
    if certificate is not None and (end := certificate.expired_at(clock())):
        raise ConfigError(
            f"the client certificate of {origin} expired on {end:%Y-%m-%d %H:%M} UTC: "
            "get a new kubeconfig from whoever runs the cluster"
        )
    access = Access(
        server=server,
        namespace=context.namespace or "default",
        trust=_trust(cluster, origin),
        credentials=_credentials(user, cluster, certificate, origin, clock),
        certificate=certificate,
        impersonation=_impersonation(user, origin),
        proxy=choose_proxy(server, cluster.proxy_url, environment),
        compress=not cluster.disable_compression and not _on_this_machine(server),
        origin=origin,
    )
    # Unreadable certificates are found now, with the file's name, not at the first request.
    make_context(access.trust, certificate)
    return access


def _choose_context(config: Kubeconfig, wanted: str | None) -> tuple[str, Context]:
    name = wanted or config.current_context
    choices = _choices("contexts", config.contexts)
    if not name:
        raise ConfigError(
            f"{config.origin} has no current context: choose one with --context{choices}"
        )
    if name not in config.contexts:
        raise ConfigError(f"there is no context {name!r} in {config.origin}{choices}")
    return name, config.contexts[name]


def _choices(what: str, present: Mapping[str, Any]) -> str:
    return f"; its {what} are: {', '.join(sorted(present))}" if present else f"; it has no {what}"


def _checked_server(server: str, origin: str) -> str:
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        # Before a path, that is; in an address that cannot be read, it could be anywhere.
        person = "@" in (parts.netloc if usable else server)
    except ValueError:
        usable, person = False, "@" in server
    if person:
        # The address is part of many messages, where a password does not belong.
        raise ConfigError(
            f"{origin} has a server address with a name or a password before an @: "
            "put them into username and password of the user, and leave https://host:6443"
        )
    if not usable:
        raise ConfigError(
            f"{origin} has the server address {server!r}: it must look like https://host:6443"
        )
    return server.rstrip("/")


def _on_this_machine(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _trust(cluster: KubeconfigCluster, origin: str) -> ServerTrust:
    return ServerTrust(
        authority=_pem(
            cluster.certificate_authority,
            cluster.certificate_authority_data,
            f"certificate-authority-data of {origin}",
        ),
        verify=not cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
    )


def _client_certificate(user: KubeconfigUser, origin: str) -> ClientCertificate | None:
    certificate = _pem(
        user.client_certificate,
        user.client_certificate_data,
        f"client-certificate-data of {origin}",
    )
    key = _pem(user.client_key, user.client_key_data, f"client-key-data of {origin}")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "certificate" if certificate is None else "key"
        raise ConfigError(f"the user of {origin} has no client {missing} to go with the other half")
    return ClientCertificate(certificate, key)


def _pem(path: str, data: str, what: str) -> Pem | None:
    if data:  # as with kubectl, data wins over a file
        try:
            return Pem(data=b64decode("".join(data.split()), validate=True))
        except ValueError as error:
            raise ConfigError(f"the {what} is not valid base64: {error}") from error
    return Pem(path=path) if path else None


def _credentials(
    user: KubeconfigUser,
    cluster: KubeconfigCluster,
    certificate: ClientCertificate | None,
    origin: str,
    clock: Callable[[], float],
) -> Credentials:
    if user.token_file:
        return TokenFile(user.token_file, certificate)
    if token := header_text(user.token, f"the token of {origin}"):
        return Fixed(Identity(bearer(token), certificate))
    if user.username:
        return Fixed(Identity(basic(user.username, user.password), certificate))
    if user.exec is not None:
        return ExecPlugin(user.exec, cluster=_cluster_for_plugin(cluster), clock=clock)
    if user.auth_provider is not None:
        name = user.auth_provider.get("name", "")
        raise ConfigError(
            f"{origin} logs in with the auth-provider {name!r}, which Kubernetes no longer has: "
            "use the provider's exec plugin"
        )
    return Fixed(Identity(certificate=certificate))


def _cluster_for_plugin(cluster: KubeconfigCluster) -> dict[str, Any]:
    """The cluster as an ExecCredential names it (for plugins that ask for it)."""
    authority = cluster.certificate_authority_data
    if not authority and cluster.certificate_authority:
        pem = Pem(path=cluster.certificate_authority).read("certificate authority")
        authority = b64encode(pem).decode()
    described = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    return {name: value for name, value in described.items() if value}


def _impersonation(user: KubeconfigUser, origin: str) -> tuple[tuple[str, str], ...]:
    headers = []
    if user.act_as:
        headers.append(("Impersonate-User", user.act_as))
    if user.act_as_uid:
        headers.append(("Impersonate-Uid", user.act_as_uid))
    headers.extend(("Impersonate-Group", group) for group in user.act_as_groups or ())
    for name, values in (user.act_as_extra or {}).items():
        # A header's name has no capitals and few signs; the API server undoes this.
        header = f"Impersonate-Extra-{quote(name.lower(), safe='')}"
        headers.extend((header, value) for value in values)
    what = f"who to act as (as, as-uid, as-groups or as-user-extra) in {origin}"
    return tuple((name, header_text(value, what)) for name, value in headers)


def _in_cluster(environment: Mapping[str, str], account: Path) -> Access:
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not (account / "token").exists():
        raise ConfigError(
            f"this pod has no service account token at {account}: set "
            "automountServiceAccountToken, or name a kubeconfig"
        )
    namespace = account / "namespace"
    trust = ServerTrust(authority=Pem(path=str(account / "ca.crt")))
    make_context(trust, None)
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        trust=trust,
        credentials=TokenFile(str(account / "token")),
        origin="the pod's service account",
    )
