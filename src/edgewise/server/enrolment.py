"""Putting a cluster into the fleet, and taking it out: its Secrets and its object."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edgewise.api.fleet import (
    KUBECONFIG_KEY,
    SECRET_LABEL,
    TURN_SECRET_KEY,
    MemberCluster,
    MemberClusterSpec,
    Turn,
)
from edgewise.kube.client import Client
from edgewise.kube.core import Secret
from edgewise.kube.errors import ConfigError, NotFound
from edgewise.kube.kubeconfig import Kubeconfig, read_kubeconfig
from edgewise.kube.objects import ObjectMeta
from edgewise.server.errors import NotThere
from edgewise.server.member_access import access_in
from edgewise.server.turn_realm import LABEL_VALUE as TURN_LABEL
from edgewise.server.turn_realm import realm_of

FIELD_MANAGER = "edgewise-fleet"


def secret_name(cluster: str) -> str:
    return f"edgewise-member-{cluster}"


def turn_secret_name(cluster: str) -> str:
    return f"edgewise-turn-{cluster}"


def turn_secret_in(file: Path) -> bytes:
    """Without the line break that editors put at the end, as the shell hands it to coturn."""
    return _read(str(file)).rstrip(b"\r\n")


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
    spec: MemberClusterSpec,
    kubeconfig: bytes | None,
    *,
    turn_secret: bytes | None = None,
) -> None:
    """Add a cluster, or make it what `spec` says; `kubeconfig` and `turn_secret` become Secrets."""
    written = []
    if kubeconfig is not None:
        secret = _secret(secret_name(name), namespace, "kubeconfig", {KUBECONFIG_KEY: kubeconfig})
        access_in(secret)  # what the server would refuse is not written at all
        written.append(secret)
        spec = msgspec.structs.replace(spec, kubeconfig_secret=secret.metadata.name)
    if turn_secret is not None:
        turn, secret = _turn(namespace, name, spec.turn, turn_secret)
        written.append(secret)
        spec = msgspec.structs.replace(spec, turn=turn)
    for secret in written:
        await hub.apply(secret, field_manager=FIELD_MANAGER)
    cluster = MemberCluster.named(name, namespace, spec=spec)
    await hub.apply(cluster, field_manager=FIELD_MANAGER)
    if not spec.turn.urls:
        # A secret that nobody uses any more is only there to be found.
        with contextlib.suppress(NotFound):
            await hub.delete(Secret, turn_secret_name(name), namespace)


async def known_spec(hub: Client, namespace: str, name: str) -> MemberClusterSpec:
    """What the fleet knows of a cluster; of a new one, that it is the hub itself."""
    try:
        return (await hub.get(MemberCluster, name, namespace)).spec
    except NotFound:
        return MemberClusterSpec()


async def set_turn(hub: Client, namespace: str, name: str, turn: Turn, secret: bytes) -> None:
    """Say where the TURN servers of a cluster of the fleet are, and what they know."""
    turn, shared = _turn(namespace, name, turn, secret)
    await hub.apply(shared, field_manager=FIELD_MANAGER)
    body = {"spec": {"turn": msgspec.to_builtins(turn)}}
    await hub.patch(MemberCluster, name, namespace, body=body, field_manager=FIELD_MANAGER)


def _turn(namespace: str, name: str, turn: Turn, content: bytes) -> tuple[Turn, Secret]:
    secret = _secret(turn_secret_name(name), namespace, TURN_LABEL, {TURN_SECRET_KEY: content})
    turn = msgspec.structs.replace(turn, secret=secret.metadata.name)
    realm_of(turn, secret)  # what the server would refuse is not written at all
    return turn, secret


def _secret(name: str, namespace: str, label: str, data: dict[str, bytes]) -> Secret:
    secret = Secret.named(name, namespace, data=data)
    secret.metadata = ObjectMeta(name=name, namespace=namespace, labels={SECRET_LABEL: label})
    return secret


async def dismiss(hub: Client, namespace: str, name: str) -> None:
    """Take a cluster out; its clients are moved, and its sessions stay there as they are."""
    try:
        await hub.delete(MemberCluster, name, namespace)
    except NotFound:
        raise NotThere(f"there is no cluster {name!r} in the fleet") from None
    for secret in (secret_name(name), turn_secret_name(name)):
        with contextlib.suppress(NotFound):
            await hub.delete(Secret, secret, namespace)


async def set_cordoned(hub: Client, namespace: str, name: str, cordoned: bool) -> None:
    try:
        await hub.patch(
            MemberCluster,
            name,
            namespace,
            body={"spec": {"cordoned": cordoned}},
            field_manager=FIELD_MANAGER,
        )
    except NotFound:
        raise NotThere(f"there is no cluster {name!r} in the fleet") from None
