"""TLS contexts: from what they are made, and from what they need not be made."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from edgewise.kube import tls
from edgewise.kube.tls import ClientCertificate, Pem, ServerTrust, make_context
from edgewise.local.control_plane.identities import Leaf
from edgewise.local.control_plane.pki import ensure_pki
from tests.unit.kube.pems import make_pair


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("this is not needed here")


def inline_pair(directory: Path) -> ClientCertificate:
    certificate, key = make_pair(directory, "me")
    return ClientCertificate(Pem(data=certificate.read_bytes()), Pem(data=key.read_bytes()))


def test_an_inline_key_needs_no_place_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = inline_pair(tmp_path)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    make_context(ServerTrust(verify=False), pair)


def test_an_inline_key_is_in_a_file_only_briefly_where_there_is_no_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = inline_pair(tmp_path)
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(tls, "_OPEN_FILES", tmp_path / "none")
    make_context(ServerTrust(verify=False), pair)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("own_authority", [True, False])
def test_the_systems_authorities_are_loaded_only_where_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_authority: bool
) -> None:
    authority, _ = make_pair(tmp_path, "ca")
    trust = ServerTrust(authority=Pem(path=str(authority)) if own_authority else None, verify=False)
    monkeypatch.setattr(ssl, "create_default_context", refuse)
    context = make_context(trust, None)
    assert len(context.get_ca_certs()) == int(own_authority)
    with pytest.raises(AssertionError):
        make_context(ServerTrust(), None)


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_shows_its_certificate_without_the_authority(tmp_path: Path, inline: bool) -> None:
    """OpenSSL would add it, and the API server verifies all it is shown with each request."""
    user = Leaf(file="user", authority="ca", common_name="somebody")
    server = Leaf(file="server", authority="ca", common_name="api", server=True, names=("api",))
    ensure_pki(tmp_path, ["ca"], [user, server], [])

    def pem(name: str) -> Pem:
        path = tmp_path / name
        return Pem(data=path.read_bytes()) if inline else Pem(path=str(path))

    offered = make_context(
        ServerTrust(authority=pem("ca.crt")), ClientCertificate(pem("user.crt"), pem("user.key"))
    )
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    asking.load_verify_locations(tmp_path / "ca.crt")
    asking.verify_mode = ssl.CERT_REQUIRED

    assert set(certificates_shown(offered, asking, "api")) == {"somebody"}


def certificates_shown(
    client: ssl.SSLContext, server: ssl.SSLContext, server_name: str
) -> list[str]:
    """The common names that the server was told, by a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=server_name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for end in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    # Public from Python 3.13 on.
    told: list[Any] = theirs._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
    return [dict(pair[0] for pair in one.get_info()["subject"])["commonName"] for one in told]
