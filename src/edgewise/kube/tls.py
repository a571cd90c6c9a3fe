"""TLS contexts from PEM data or PEM files, rebuilt when a file has been rotated."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from cryptography import x509

from edgewise.kube.errors import ConfigError

# How often the files are looked at. Certificates are rotated long before they expire.
RECHECK_SECONDS = 10.0
# Where a process finds its own open files by number.
_OPEN_FILES = Path("/proc/self/fd")


class Pem(msgspec.Struct, frozen=True):
    """PEM text that is given inline, or stands in a file that somebody may rotate."""

    path: str = ""
    data: bytes = b""

    def __repr__(self) -> str:
        return f"Pem({self.path or 'inline'})"

    def read(self, what: str) -> bytes:
        if not self.path:
            return self.data
        try:
            return Path(self.path).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read the {what} {self.path}: {error.strerror or error}"
            ) from error

    def stamp(self) -> tuple[int, int]:
        """Changes when the file does."""
        if not self.path:
            return (0, 0)
        try:
            found = Path(self.path).stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_ino)


class ClientCertificate(msgspec.Struct, frozen=True):
    """The certificate and key by which a user proves who they are."""

    certificate: Pem
    key: Pem

    def expired_at(self, now: float) -> datetime | None:
        """When it expired, if it has."""
        try:
            first = x509.load_pem_x509_certificate(self.certificate.read("client certificate"))
        except (ValueError, ConfigError):
            return None
        end = first.not_valid_after_utc
        return end if end <= datetime.fromtimestamp(now, UTC) else None


class ServerTrust(msgspec.Struct, frozen=True):
    """How the server's certificate is judged."""

    authority: Pem | None = None
    verify: bool = True
    # The name the certificate is checked against, where it differs from the URL's host.
    server_name: str = ""


class TlsContexts:
    """The TLS context for a client certificate, made once and again after a rotation."""

    def __init__(self, trust: ServerTrust, clock: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._clock = clock
        self._client: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None
        self._stamps: tuple[tuple[int, int], ...] = ()
        self._checked = float("-inf")

    def context(self, client: ClientCertificate | None) -> ssl.SSLContext:
        now = self._clock()
        if self._context is None or client != self._client:
            # Looked at first: what is rotated while it is read is read again.
            stamps = self._look(client)
            self._context = make_context(self._trust, client)
            self._client, self._checked, self._stamps = client, now, stamps
        elif now - self._checked >= RECHECK_SECONDS:
            self._checked = now
            self._renew(client)
        return self._context

    def _renew(self, client: ClientCertificate | None) -> None:
        stamps = self._look(client)
        if stamps == self._stamps:
            return
        # Between the two halves of a rotation the old pair still serves.
        with contextlib.suppress(ConfigError):
            self._context = make_context(self._trust, client)
            self._stamps = stamps

    def _look(self, client: ClientCertificate | None) -> tuple[tuple[int, int], ...]:
        pems = [self._trust.authority] if self._trust.authority else []
        if client is not None:
            pems += [client.certificate, client.key]
        return tuple(pem.stamp() for pem in pems)


def make_context(trust: ServerTrust, client: ClientCertificate | None) -> ssl.SSLContext:
    """A context that trusts what `trust` says and shows `client` if the server asks."""
    context = _trusting_context(trust)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client is not None:
        load_pair(context, client, alone=True)
    return context


def _trusting_context(trust: ServerTrust) -> ssl.SSLContext:
    """The system's own authorities take long to load, so only where nothing else is said."""
    if trust.authority is None:
        if trust.verify:
            return ssl.create_default_context()
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As lenient as Go: the default context of Python 3.13 refuses the authorities of some
    # clusters, which lack a key identifier.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_authority(context, trust.authority)
    # A cluster's bundle may name an intermediate as its root, as Go programs allow.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _load_authority(context: ssl.SSLContext, authority: Pem) -> None:
    where = authority.path or "certificate-authority-data"
    try:
        text = authority.read("certificate authority").decode("ascii")
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{where} holds no readable CA certificate in PEM form: "
            "take the cluster's CA bundle from its administrator"
        ) from error


def load_pair(context: ssl.SSLContext, client: ClientCertificate, *, alone: bool = False) -> None:
    """Let `context` show a certificate, from now on and without disturbing open connections.

    `alone`: without the certificate of its authority, should the context trust that.
    """

    def refuse_to_ask() -> str:
        raise ConfigError(
            f"the client key {client.key.path or 'in the kubeconfig'} is encrypted with a "
            "passphrase: store it without one"
        )

    with ExitStack() as files:
        shown = _standing_alone(client.certificate) if alone else client.certificate
        certificate = _as_file(shown, "client certificate", files)
        key = _as_file(client.key, "client key", files)
        try:
            context.load_cert_chain(certificate, key, password=refuse_to_ask)
        except (ssl.SSLError, OSError) as error:
            where = client.certificate.path or "client-certificate-data"
            raise ConfigError(
                f"the client certificate in {where} and its key cannot be used together: "
                f"{getattr(error, 'reason', None) or 'they are not a matching pair of PEM data'}"
            ) from error


def _standing_alone(certificate: Pem) -> Pem:
    """The same certificate, with which OpenSSL sends no other along.

    To one that has no chain it adds the authority that the context trusts. The API server
    then verifies three signatures rather than one, with every request: a tenth of what a write
    costs it. Only a chain stops OpenSSL, and its module in Python has no switch; so the
    certificate is its own chain, which is of no use as an authority to anybody.
    """
    data = certificate.read("client certificate")
    if data.count(b"BEGIN CERTIFICATE") != 1:
        return certificate
    return Pem(data=data.rstrip() + b"\n" + data)


def _as_file(pem: Pem, what: str, files: ExitStack) -> str:
    """Python's ssl module takes a key only from a file, so inline data visits one briefly.

    Where the system can, the file is in memory alone: a key does not belong on a disk, and
    a container may have no place to write to.
    """
    data = pem.read(what)
    if pem.path:
        return pem.path
    if hasattr(os, "memfd_create") and _OPEN_FILES.is_dir():
        handle = os.memfd_create("edgewise-pem")
        path = str(_OPEN_FILES / str(handle))
        files.callback(os.close, handle)
        os.write(handle, data)
        return path
    handle, path = tempfile.mkstemp(prefix="edgewise-")
    files.callback(os.unlink, path)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return path
