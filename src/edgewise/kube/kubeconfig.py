"""Kubeconfig files: their fields, and how several of them become one.

As with kubectl, the first file that says something wins, and a relative path is
relative to the file it stands in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from edgewise.kube.errors import ConfigError


class _Part(msgspec.Struct, kw_only=True, rename="kebab"):
    pass


PartT = TypeVar("PartT", bound=_Part)


class KubeconfigCluster(_Part):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False


class ExecVariable(_Part):
    name: str
    value: str = ""


class Exec(_Part, kw_only=True, rename="camel"):
    api_version: str = ""
    command: str
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class KubeconfigUser(_Part):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    act_as: str = msgspec.field(name="as", default="")
    act_as_uid: str = msgspec.field(name="as-uid", default="")
    act_as_groups: list[str] | None = msgspec.field(name="as-groups", default=None)
    act_as_extra: dict[str, list[str]] | None = msgspec.field(name="as-user-extra", default=None)
    exec: Exec | None = None
    auth_provider: dict[str, Any] | None = None


class Context(_Part):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(_Part):
    name: str
    cluster: KubeconfigCluster | None = None


class NamedUser(_Part):
    name: str
    user: KubeconfigUser | None = None


class NamedContext(_Part):
    name: str
    context: Context | None = None


class _Document(_Part):
    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


class Kubeconfig(msgspec.Struct):
    """One or several files, merged; all paths are absolute."""

    files: list[Path]
    current_context: str = ""
    clusters: dict[str, KubeconfigCluster] = {}
    users: dict[str, KubeconfigUser] = {}
    contexts: dict[str, Context] = {}

    @property
    def origin(self) -> str:
        return " and ".join(str(file) for file in self.files)


def read_kubeconfig(files: Sequence[Path]) -> Kubeconfig:
    """Read and merge `files`, all of which must exist."""
    merged = Kubeconfig(files=list(files))
    for file in files:
        document = _parse(file)
        merged.current_context = merged.current_context or document.current_context or ""
        for cluster in document.clusters or ():
            merged.clusters.setdefault(
                cluster.name,
                _absolute(cluster.cluster or KubeconfigCluster(), file, _CLUSTER_PATHS),
            )
        for user in document.users or ():
            found = _absolute(user.user or KubeconfigUser(), file, _USER_PATHS)
            # A bare command name is looked up in PATH; one with a slash is a path.
            if found.exec is not None and os.sep in found.exec.command:
                found.exec = _absolute(found.exec, file, ("command",))
            merged.users.setdefault(user.name, found)
        for context in document.contexts or ():
            merged.contexts.setdefault(context.name, context.context or Context())
    return merged


_CLUSTER_PATHS = ("certificate_authority",)
_USER_PATHS = ("client_certificate", "client_key", "token_file")


def _absolute(part: PartT, file: Path, fields: Sequence[str]) -> PartT:
    for field in fields:
        if value := getattr(part, field):
            setattr(part, field, str(file.absolute().parent / value))
    return part


# PyYAML lets these through as they are: for the 30th of February, a number without digits, a tag
# that its value does not fit, and brackets in brackets in brackets.
_PYYAML_SLIPS = (ValueError, LookupError, AttributeError, RecursionError)


def _parse(file: Path) -> _Document:
    try:
        content = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"cannot read the kubeconfig {file}: {error.strerror or error}"
        ) from error
    except (yaml.YAMLError, *_PYYAML_SLIPS) as error:
        raise ConfigError(
            f"the kubeconfig {file} is not valid YAML{_place(error)}: correct it, "
            "or name another file"
        ) from error
    if content is None:
        return _Document()
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file} is not a kubeconfig: it holds {_described(content)} "
            "where clusters, users and contexts should be"
        )
    try:
        return msgspec.convert(content, _Document)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the kubeconfig {file} is not well formed: {error}") from error


def _place(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return " (it is nested too deeply)"
    if not isinstance(error, yaml.YAMLError):
        # Without its value, which may be a secret.
        return " (a date, a number or a tagged value is none)"
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    where = f" (line {mark.line + 1}" if mark else " ("
    return f"{where}{', ' if mark else ''}{problem or 'unreadable characters'})"


def _described(content: object) -> str:
    return "plain text" if isinstance(content, str) else f"a {type(content).__name__}"
