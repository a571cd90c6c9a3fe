"""From kubeconfig files, or a pod's service account, to an Access."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewise.kube.config import load_access
from edgewise.kube.errors import ConfigError

from .pems import make_pair

Write = Callable[..., Path]


def document(**changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "https://edge.example:6443/"}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "u", "namespace": "games"}},
        ],
    }
    return content | changes


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(content: Any, name: str = "config") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return file

    return _write


async def test_the_current_context_is_used(write: Write) -> None:
    access = load_access(write(document()), environment={})
    assert access.server == "https://edge.example:6443"
    assert access.namespace == "default"
    assert (await access.credentials.identity()).authorization == "Bearer hunter2"
    assert access.compress


def test_another_context_may_be_named(write: Write) -> None:
    assert load_access(write(document()), "two", environment={}).namespace == "games"


def test_secrets_do_not_show(write: Write) -> None:
    access = load_access(write(document()), environment={})
    assert "hunter2" not in repr(access)
    assert "hunter2" not in repr(access.credentials)


@pytest.mark.parametrize(
    "server",
    [
        "https://admin:hunter2@edge.example:6443",
        "https://hunter2@edge.example:6443",
        "https://admin:hunter2@edge.example:port",
        "https://admin:hunter2@[edge",
        "admin:hunter2@edge.example",
    ],
)
def test_a_password_in_the_address_of_a_server_is_refused_and_not_shown(
    server: str, write: Write
) -> None:
    content = document(clusters=[{"name": "c", "cluster": {"server": server}}])
    with pytest.raises(ConfigError, match="put them into username and password") as told:
        load_access(write(content), environment={})
    assert "hunter2" not in str(told.value)


def test_a_path_of_a_server_may_hold_an_at_sign(write: Write) -> None:
    content = document(clusters=[{"name": "c", "cluster": {"server": "https://edge/me@home"}}])
    assert load_access(write(content), environment={}).server == "https://edge/me@home"


@pytest.mark.parametrize("token", ["hunter2\n", " hunter2\r\n"])
async def test_the_line_end_of_a_token_is_not_part_of_it(token: str, write: Write) -> None:
    content = document(users=[{"name": "u", "user": {"token": token}}])
    access = load_access(write(content), environment={})
    assert (await access.credentials.identity()).authorization == "Bearer hunter2"


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ({"token": "hunter2\nhunter2"}, "the token of context 'one' .* has a line end"),
        ({"token": "hunter2\0hunter2"}, "another control character in it"),
        ({"as": "hunter2\nX: y"}, "who to act as .* in context 'one' .* has a line end"),
        ({"as-uid": "hunter2\rx"}, "who to act as .* has a line end"),
        ({"as": "a", "as-groups": ["b", "hunter2\nx"]}, "who to act as .* has a line end"),
        ({"as": "a", "as-user-extra": {"b": ["hunter2\nx"]}}, "who to act as .* has a line end"),
    ],
)
def test_what_no_header_can_hold_is_refused_and_not_shown(
    user: dict[str, Any], sentence: str, write: Write
) -> None:
    with pytest.raises(ConfigError, match=sentence) as told:
        load_access(write(document(users=[{"name": "u", "user": user}])), environment={})
    assert "hunter2" not in str(told.value)


def with_authority(data: str) -> dict[str, Any]:
    cluster = {"server": "https://x", "certificate-authority-data": data}
    return document(clusters=[{"name": "c", "cluster": cluster}])


COMPLAINTS: dict[str, tuple[Any, str | None, str]] = {
    "an unknown context": (
        document(),
        "three",
        r"no context 'three' in .*config; its contexts are: one, two",
    ),
    "no current context": (
        document(**{"current-context": ""}),
        None,
        r"no current context: choose one with --context; its contexts are: one, two",
    ),
    "no contexts at all": ({"clusters": []}, "x", r"no context 'x' .*; it has no contexts"),
    "an empty file": ("", None, "no current context"),
    "a cluster that is not there": (
        document(clusters=[]),
        None,
        r"names the cluster 'c', which is not there; it has no clusters",
    ),
    "a user that is not there": (
        document(users=[{"name": "v"}]),
        None,
        r"names the user 'u', which is not there; its users are: v",
    ),
    "broken YAML": ("clusters:\n  - name: [\n", None, r"config is not valid YAML \(line 3, "),
    "bytes that are no text": ("\x00\x01", None, r"config is not valid YAML"),
    "a date that never is": ("a: 2024-02-30", None, r"config is not valid YAML \(a date"),
    "a number without digits": ("a: 0b_", None, r"config is not valid YAML \(a date, a number"),
    "a truth that is none": ("a: !!bool x", None, r"not valid YAML \(.* a tagged value is none"),
    "a time that is none": (
        "a: !!timestamp x",
        None,
        r"not valid YAML \(.* a tagged value is none",
    ),
    "brackets without end": ("a: " + "[" * 3000, None, r"not valid YAML \(it is nested too deeply"),
    "something else than a kubeconfig": ("hello", None, "is not a kubeconfig: it holds plain text"),
    "a field of a wrong type": (
        document(clusters=[{"name": "c", "cluster": "x"}]),
        None,
        r"not well formed: Expected `object \| null`, got `str` - at `\$.clusters\[0\].cluster`",
    ),
    "a server without a scheme": (
        document(clusters=[{"name": "c", "cluster": {"server": "edge:6443"}}]),
        None,
        r"server address 'edge:6443': it must look like https://host:6443",
    ),
    "a server with a port that is none": (
        document(clusters=[{"name": "c", "cluster": {"server": "https://edge:abc"}}]),
        None,
        "must look like https://host:6443",
    ),
    "a CA that is not even ASCII": (
        with_authority(data="é"),
        None,
        "certificate-authority-data of context 'one' .* is not valid base64",
    ),
    "a CA that is not base64": (
        with_authority(data="%%"),
        None,
        "certificate-authority-data of context 'one' .* is not valid base64",
    ),
    "a CA that is no certificate": (
        with_authority(data=base64.b64encode(b"hello").decode()),
        None,
        "holds no readable CA certificate in PEM form",
    ),
    "a CA file that is not there": (
        document(
            clusters=[
                {"name": "c", "cluster": {"server": "https://x", "certificate-authority": "no.crt"}}
            ]
        ),
        None,
        "cannot read the certificate authority .*no.crt: No such file",
    ),
    "a certificate without its key": (
        document(users=[{"name": "u", "user": {"client-certificate": "a.crt"}}]),
        None,
        "no client key to go with the other half",
    ),
    "a legacy auth provider": (
        document(users=[{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]),
        None,
        "auth-provider 'gcp', which Kubernetes no longer has",
    ),
    "a plugin of an unknown protocol": (
        document(
            users=[{"name": "u", "user": {"exec": {"command": "x", "apiVersion": "example/v1"}}}]
        ),
        None,
        "set its apiVersion to client.authentication.k8s.io/v1",
    ),
    "a proxy of an unknown scheme": (
        document(
            clusters=[
                {"name": "c", "cluster": {"server": "https://x", "proxy-url": "socks5://p:1"}}
            ]
        ),
        None,
        "name an http:// or https:// proxy",
    ),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_a_kubeconfig_is_refused_with_a_sentence(case: str, write: Write) -> None:
    content, context, sentence = COMPLAINTS[case]
    with pytest.raises(ConfigError, match=sentence):
        load_access(write(content), context, environment={})


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the kubeconfig .*nowhere: No such file"):
        load_access(tmp_path / "nowhere", environment={})


def test_kubeconfig_of_the_environment_must_name_a_file_that_exists(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"KUBECONFIG names .*, but there is no such file"):
        load_access(environment={"KUBECONFIG": str(tmp_path / "nowhere")})


def test_without_any_configuration_the_sentence_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name one with --kubeconfig, set KUBECONFIG"):
        load_access(environment={"HOME": str(tmp_path)})


def test_the_file_in_the_home_directory_is_the_last_resort(write: Write, tmp_path: Path) -> None:
    write(document(), ".kube/config")
    access = load_access(environment={"HOME": str(tmp_path)})
    assert access.server == "https://edge.example:6443"


def test_several_files_are_merged_and_the_first_one_wins(write: Write, tmp_path: Path) -> None:
    ca = make_pair(tmp_path / "second", "ca")[0]
    first = write(
        {
            "current-context": "three",
            "contexts": [{"name": "three", "context": {"cluster": "d", "user": "u"}}],
            "users": [{"name": "u", "user": {"username": "me", "password": "pw"}}],
        },
        "first/config",
    )
    second = write(
        document(
            clusters=[
                {
                    "name": "d",
                    "cluster": {"server": "https://d", "certificate-authority": ca.name},
                }
            ]
        ),
        "second/config",
    )
    listed = os.pathsep.join([str(first), str(tmp_path / "missing"), str(second)])
    access = load_access(environment={"KUBECONFIG": listed})
    assert access.server == "https://d"
    # Relative to the file that says it, not to the one that was read first.
    assert access.trust.authority is not None
    assert access.trust.authority.path == str(ca)
    assert "context 'three'" in access.origin


async def test_basic_auth_and_impersonation(write: Write) -> None:
    user = {
        "username": "me",
        "password": "pw",
        "as": "you",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/Scopes": ["read", "list"]},
    }
    access = load_access(write(document(users=[{"name": "u", "user": user}])), environment={})
    identity = await access.credentials.identity()
    assert identity.authorization == "Basic " + base64.b64encode(b"me:pw").decode()
    assert access.impersonation == (
        ("Impersonate-User", "you"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Fscopes", "read"),
        ("Impersonate-Extra-example.com%2Fscopes", "list"),
    )


def test_base64_may_be_wrapped_as_programs_write_it(write: Write, tmp_path: Path) -> None:
    certificate, _ = make_pair(tmp_path, "ca")
    wrapped = base64.encodebytes(certificate.read_bytes()).decode()
    access = load_access(write(with_authority(wrapped)), environment={})
    assert access.trust.authority is not None
    assert access.trust.authority.data == certificate.read_bytes()


def test_tls_settings_are_taken_over(write: Write) -> None:
    cluster = {
        "server": "https://127.0.0.1:6443",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://proxy:3128",
    }
    access = load_access(
        write(document(clusters=[{"name": "c", "cluster": cluster}])), environment={}
    )
    assert not access.trust.verify
    assert access.trust.server_name == "kubernetes.default"
    assert access.proxy == "http://proxy:3128"
    assert not access.compress, "on this machine, compressing only costs time"


async def test_client_certificates_as_files_and_inline(write: Write, tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "me")
    in_files = {"client-certificate": "me.crt", "client-key": "me.key"}
    inline = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    for user in (in_files, inline):
        access = load_access(write(document(users=[{"name": "u", "user": user}])), environment={})
        found = (await access.credentials.identity()).certificate
        assert found is not None
        assert found.certificate.read("") == certificate.read_bytes()


def test_an_expired_client_certificate_is_told_before_anything_is_sent(
    write: Write, tmp_path: Path
) -> None:
    make_pair(tmp_path, "me", days=-1)
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    with pytest.raises(ConfigError, match=r"expired on \d{4}-\d\d-\d\d .* get a new kubeconfig"):
        load_access(write(document(users=[{"name": "u", "user": user}])), environment={})


def test_a_certificate_and_a_key_that_do_not_belong_together(write: Write, tmp_path: Path) -> None:
    make_pair(tmp_path, "me")
    make_pair(tmp_path, "you")
    user = {"client-certificate": "me.crt", "client-key": "you.key"}
    with pytest.raises(ConfigError, match=r"me\.crt and its key cannot be used together"):
        load_access(write(document(users=[{"name": "u", "user": user}])), environment={})


def test_an_encrypted_key_is_refused_instead_of_asked_about(write: Write, tmp_path: Path) -> None:
    make_pair(tmp_path, "me", passphrase=b"x")
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    with pytest.raises(ConfigError, match="encrypted with a passphrase"):
        load_access(write(document(users=[{"name": "u", "user": user}])), environment={})


@pytest.fixture
def account(tmp_path: Path) -> Path:
    directory = tmp_path / "account"
    directory.mkdir()
    make_pair(directory, "ca")
    (directory / "token").write_text("abc\n")
    (directory / "namespace").write_text("games")
    return directory


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_inside_a_pod_the_service_account_is_used(account: Path, tmp_path: Path) -> None:
    access = load_access(environment={**POD, "HOME": str(tmp_path)}, service_account=account)
    assert access.server == "https://10.0.0.1:443"
    assert access.namespace == "games"
    assert (await access.credentials.identity()).authorization == "Bearer abc"


def test_an_ipv6_service_address_is_bracketed(account: Path, tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "HOME": str(tmp_path)}
    access = load_access(environment=environment, service_account=account)
    assert access.server == "https://[fd00::1]:443"


def test_a_pod_without_a_token_is_told_what_to_set(account: Path, tmp_path: Path) -> None:
    (account / "token").unlink()
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        load_access(environment={**POD, "HOME": str(tmp_path)}, service_account=account)
