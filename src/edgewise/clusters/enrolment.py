"""Registering a cluster, and taking it out: its Secrets and its object."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edgewise.api.clusters import KUBECONFIG_KEY, Cluster, ClusterSpec
from edgewise.api.secrets import labelled_secret
from edgewise.clusters.access import access_in
from edgewise.kube.client import Client
from edgewise.kube.errors import ConfigError, NotFound
from edgewise.kube.kinds.core import Secret
from edgewise.kube.kubeconfig import Kubeconfig, read_kubeconfig
from edgewise.kube.objects import Object

FIELD_MANAGER = "edgewise-hub"


def secret_name(cluster: str) -> str:
    return f"edgewise-member-{cluster}"


def self_contained(file: Path, context: str | None) -> bytes:
    """One context of a kubeconfig, with the contents of all files that it names."""
    config = read_kubeconfig([file])
    name = context or config.current_context
    if name not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise ConfigError(f"there is no context {name!r} in {file}; its contexts are: {known}")
    chosen = config.contexts[name]
    if chosen.cluster not in config.clusters:
        raise ConfigError(f"the context {name!r} of {file} names a cluster that is not there")
    user = _user(config, chosen.user, file)
    cluster = msgspec.to_builtins(config.clusters[chosen.cluster])
    _embed(cluster, "certificate-authority")
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "member",
        "clusters": [{"name": "member", "cluster": _filled(cluster)}],
        "users": [{"name": "member", "user": _filled(user)}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "member"}}],
    }
    return yaml.safe_dump(document).encode()


def _user(config: Kubeconfig, name: str, file: Path) -> dict[str, Any]:
    if not name:
        return {}
    if name not in config.users:
        raise ConfigError(f"{file} has no user {name!r}")
    user: dict[str, Any] = msgspec.to_builtins(config.users[name])
    if user.get("exec") or user.get("auth-provider"):
        raise ConfigError(
            f"the user {name!r} of {file} logs in with a program, which the server will not run: "
            "make a service account in that cluster and use a kubeconfig with its token"
        )
    if token_file := user.pop("tokenFile", ""):
        user["token"] = _read(token_file).decode().strip()
    _embed(user, "client-certificate")
    _embed(user, "client-key")
    return user


def _embed(part: dict[str, Any], field: str) -> None:
    path = part.pop(field, "")
    if path and not part.get(f"{field}-data"):
        part[f"{field}-data"] = base64.b64encode(_read(path)).decode()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


def _filled(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value not in (None, "", False)}


async def enrol(
    hub: Client,
    namespace: str,
    name: str,
    spec: ClusterSpec,
    kubeconfig: bytes | None,
) -> None:
    """Add a cluster, or make it what `spec` says; `kubeconfig` becomes a Secret."""
    if kubeconfig is not None:
        data = {KUBECONFIG_KEY: kubeconfig}
        secret = labelled_secret(secret_name(name), namespace, "kubeconfig", data)
        access_in(secret)  # what the server would refuse is not written at all
        await hub.apply(secret, field_manager=FIELD_MANAGER)
        spec = msgspec.structs.replace(spec, kubeconfig_secret=secret.metadata.name)
    await hub.apply(Cluster.named(name, namespace, spec=spec), field_manager=FIELD_MANAGER)


async def known_spec(hub: Client, namespace: str, name: str) -> ClusterSpec:
    """What the hub knows of a cluster; of a new one, that it is the hub itself."""
    try:
        return (await hub.get(Cluster, name, namespace)).spec
    except NotFound:
        return ClusterSpec()


async def dismiss(hub: Client, namespace: str, name: str) -> bool:
    """Take a cluster out; whether anything of it was there."""
    # The object last, so that a command that was cut short finds what to finish.
    secret = await gone(hub, Secret, secret_name(name), namespace)
    return await gone(hub, Cluster, name, namespace) or secret


async def gone(hub: Client, kind: type[Object], name: str, namespace: str) -> bool:
    """Delete an object; whether it was there."""
    try:
        await hub.delete(kind, name, namespace)
    except NotFound:
        return False
    return True
