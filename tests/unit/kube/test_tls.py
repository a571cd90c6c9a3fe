"""TLS contexts: from what they are made, and from what they need not be made."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from edgewise.kube import tls
from edgewise.kube.tls import ClientCertificate, Pem, ServerTrust, make_context
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
