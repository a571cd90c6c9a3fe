"""Who the client says it is: fixed tokens, token files that rotate, and exec plugins."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from edgewise.kube.errors import UNREADABLE_JSON, ConfigError
from edgewise.kube.kubeconfig import Exec
from edgewise.kube.tls import ClientCertificate, Pem

PATIENCE_WITH_PEOPLE = 600.0  # somebody may have to find a phone
PLUGIN_TIMEOUT_SECONDS = 60.0
# A token that is about to expire would be refused on its way.
EXPIRY_MARGIN_SECONDS = 10.0
TOKEN_FILE_RECHECK_SECONDS = 10.0
PLUGIN_API_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)


class Identity(msgspec.Struct, frozen=True):
    """What goes with one request: an Authorization header, a client certificate, or both."""

    authorization: str = ""
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        return f"Identity({'token' if self.authorization else ''}, {self.certificate!r})"


class Credentials(Protocol):
    async def identity(self) -> Identity: ...

    def rejected(self) -> None:
        """The server answered 401: whatever is remembered is to be fetched anew."""


class Fixed:
    """Credentials that never change, or none at all."""

    def __init__(self, identity: Identity | None = None) -> None:
        self._identity = identity or Identity()

    async def identity(self) -> Identity:
        return self._identity

    def rejected(self) -> None:
        return None


def header_text(value: str, what: str) -> str:
    """A value that can be sent in a header, without the line end that many editors leave.

    Checked here because aiohttp would complain at every request, and not in a sentence.
    The value itself may be a secret, and is not shown.
    """
    text = value.strip()
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise ConfigError(f"{what} has a line end or another control character in it: correct it")
    return text


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"


class TokenFile:
    """A token in a file that somebody, such as the kubelet, keeps fresh."""

    def __init__(
        self,
        path: str,
        certificate: ClientCertificate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = Path(path)
        self._certificate = certificate
        self._clock = clock
        self._identity: Identity | None = None
        self._read_at = 0.0

    async def identity(self) -> Identity:
        now = self._clock()
        if self._identity is None or now - self._read_at >= TOKEN_FILE_RECHECK_SECONDS:
            try:
                token = header_text(self._path.read_text(), "the token")
            except (OSError, UnicodeDecodeError, ConfigError) as error:
                token = ""
                if self._identity is None:
                    raise ConfigError(
                        f"cannot read the token file {self._path}: {error}"
                    ) from error
            if token:
                self._identity = Identity(bearer(token), self._certificate)
            elif self._identity is None:
                raise ConfigError(f"the token file {self._path} is empty")
            # Otherwise it is being rewritten at this moment: the old token still serves.
            self._read_at = now
        return self._identity

    def rejected(self) -> None:
        self._read_at = float("-inf")


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _PluginAnswer(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _PluginStatus | None = None


class ExecPlugin:
    """A program, named in the kubeconfig, that prints credentials."""

    def __init__(
        self,
        plugin: Exec,
        *,
        cluster: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
        timeout: float = PLUGIN_TIMEOUT_SECONDS,
    ) -> None:
        if plugin.api_version not in PLUGIN_API_VERSIONS:
            raise ConfigError(
                f"the credential plugin {plugin.command} is set to speak "
                f"{plugin.api_version or 'an unnamed protocol'}: "
                f"set its apiVersion to {PLUGIN_API_VERSIONS[0]}"
            )
        self._plugin = plugin
        self._cluster = cluster
        self._clock = clock
        self._timeout = timeout
        self._identity: Identity | None = None
        self._valid_until = float("inf")
        self._running = asyncio.Lock()

    async def identity(self) -> Identity:
        if fresh := self._fresh():
            return fresh
        async with self._running:  # many requests may wait for the one run
            return self._fresh() or await self._run()

    def rejected(self) -> None:
        self._identity = None

    def _fresh(self) -> Identity | None:
        return self._identity if self._clock() < self._valid_until else None

    async def _run(self) -> Identity:
        interactive = self._interactive()
        output = await self._call(interactive)
        try:
            answer = msgspec.json.decode(output, type=_PluginAnswer)
        except UNREADABLE_JSON as error:
            raise ConfigError(
                f"the credential plugin {self._plugin.command} printed something else "
                f"than an ExecCredential: {error}"
            ) from error
        status = answer.status
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            raise ConfigError(
                f"the credential plugin {self._plugin.command} answered with "
                f"{answer.kind or 'nothing'} {answer.api_version} instead of an "
                f"ExecCredential {self._plugin.api_version}"
            )
        token = status.token if status is not None else ""
        token = header_text(token, f"the token of the credential plugin {self._plugin.command}")
        if status is None or not (token or status.client_certificate_data):
            raise ConfigError(
                f"the credential plugin {self._plugin.command} gave neither a token nor a "
                "client certificate"
            )
        certificate = None
        if status.client_certificate_data:
            certificate = ClientCertificate(
                Pem(data=status.client_certificate_data.encode()),
                Pem(data=status.client_key_data.encode()),
            )
        identity = Identity(bearer(token) if token else "", certificate)
        self._valid_until = float("inf")
        if status.expiration_timestamp is not None:
            end = status.expiration_timestamp
            end = end if end.tzinfo else end.replace(tzinfo=UTC)
            self._valid_until = end.timestamp() - EXPIRY_MARGIN_SECONDS
        self._identity = identity
        return identity

    def _interactive(self) -> bool:
        terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not terminal:
            raise ConfigError(
                f"the credential plugin {self._plugin.command} wants to ask something, "
                "but there is no terminal: run this command at one"
            )
        return terminal and self._plugin.interactive_mode != "Never"

    async def _call(self, interactive: bool) -> bytes:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.provide_cluster_info and self._cluster is not None:
            spec["cluster"] = self._cluster
        request = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = dict(os.environ)
        environment.update({variable.name: variable.value for variable in plugin.env or ()})
        environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(request).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *(plugin.args or ()),
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # What it asks or tells somebody at a terminal is for them to see.
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as error:  # the latter for a NUL
            hint = f" {plugin.install_hint.strip()}" if plugin.install_hint else ""
            problem = f"cannot be started: {getattr(error, 'strerror', None) or error}"
            if isinstance(error, FileNotFoundError):
                problem = "is not installed"
            raise ConfigError(
                f"the credential plugin {plugin.command} that the kubeconfig names {problem}.{hint}"
            ) from error
        timeout = PATIENCE_WITH_PEOPLE if interactive else self._timeout
        try:
            output, complaint = await asyncio.wait_for(process.communicate(), timeout)
        except TimeoutError as error:
            raise ConfigError(
                f"the credential plugin {plugin.command} did not answer within "
                f"{timeout:.0f} seconds"
            ) from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            last = (complaint or b"").decode(errors="replace").strip().splitlines()[-1:]
            said = f": {last[0][:300]}" if last else ""
            raise ConfigError(
                f"the credential plugin {plugin.command} failed with exit code "
                f"{process.returncode}{said}"
            )
        return output
