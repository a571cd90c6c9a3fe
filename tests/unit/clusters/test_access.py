"""Kubeconfigs from Secrets, and kubeconfigs on their way into one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewise.clusters.access import access_in
from edgewise.clusters.enrolment import self_contained
from edgewise.kube.errors import ConfigError
from edgewise.kube.kinds.core import Secret


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [
                {"name": "x", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}
            ],
            "users": [{"name": "x", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        }
    )


def secret(content: str) -> Secret:
    return Secret.named("member", "edge", data={"kubeconfig": content.encode()})


def test_one_that_holds_everything_itself_is_used() -> None:
    access = access_in(secret(kubeconfig(user={"token": "t"})))
    assert access.server == "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("cluster", "user", "uses"),
    [
        ({"certificate-authority": "/etc/shadow"}, {}, "certificate-authority"),
        ({}, {"client-certificate": "/etc/shadow", "client-key": "/x"}, "client-certificate"),
        ({}, {"client-key": "/etc/shadow"}, "client-key"),
        ({}, {"tokenFile": "/var/run/secrets/token"}, "token-file"),
        ({}, {"exec": {"apiVersion": "v1", "command": "/bin/touch", "args": ["/x"]}}, "exec"),
    ],
)
def test_a_kubeconfig_from_a_secret_reads_no_files_and_runs_no_programs(
    cluster: dict[str, Any], user: dict[str, Any], uses: str
) -> None:
    with pytest.raises(ConfigError, match=f"but this one uses {uses}"):
        access_in(secret(kubeconfig(cluster, user)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no key 'kubeconfig'"),
        ("{", "the Secret edge/member is not valid YAML"),
        ("just text", "the Secret edge/member is not a kubeconfig"),
        (kubeconfig({"server": "nowhere"}), "must look like https://host:6443"),
    ],
)
def test_what_is_wrong_is_said_of_the_secret(content: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        access_in(secret(content))
    assert "edgewise-" not in str(refused.value)  # nobody knows our temporary files


def test_files_are_put_in_when_a_cluster_is_enrolled(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("an authority")
    (tmp_path / "token").write_text("t0ken\n")
    file = tmp_path / "config"
    file.write_text(kubeconfig({"certificate-authority": "ca.crt"}, {"tokenFile": "token"}))
    written = yaml.safe_load(self_contained(file, None))
    cluster = written["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"an authority"
    assert "certificate-authority" not in cluster
    assert written["users"][0]["user"] == {"token": "t0ken"}


@pytest.mark.parametrize(
    ("content", "context", "said"),
    [
        (kubeconfig(), "y", "there is no context 'y'"),
        (kubeconfig(user={"exec": {"command": "aws"}}), None, "make a service account"),
        (kubeconfig({"certificate-authority": "missing.crt"}), None, "cannot read .*missing.crt"),
    ],
)
def test_what_cannot_be_enrolled_is_said(
    tmp_path: Path, content: str, context: str | None, said: str
) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(ConfigError, match=said):
        self_contained(file, context)
