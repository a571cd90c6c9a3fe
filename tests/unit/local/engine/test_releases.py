"""The one list of addresses."""

from edgewise.local.engine.pins import read_pins
from edgewise.local.engine.releases import releases

VERSIONS = {"kubernetes": "1.34.4", "etcd": "3.6.8", "coredns": "1.14.7", "kwok": "0.6.1"}


def test_addresses_follow_from_versions_and_architecture() -> None:
    found = releases(VERSIONS, "arm64")
    kubelet = found["kubelet"]
    assert kubelet.url == "https://dl.k8s.io/release/v1.34.4/bin/linux/arm64/kubelet"
    assert kubelet.checksum_url == f"{kubelet.url}.sha512"
    etcd = found["etcd"]
    assert etcd.url == (
        "https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-arm64.tar.gz"
    )
    assert etcd.checksum_url.endswith("/v3.6.8/SHA256SUMS")
    assert etcd.member == "etcd-v3.6.8-linux-arm64/etcd"
    coredns = found["coredns"]
    assert coredns.url == (
        "https://github.com/coredns/coredns/releases/download/v1.14.7/coredns_1.14.7_linux_arm64.tgz"
    )


def test_every_address_is_encrypted_and_every_file_has_a_checksum() -> None:
    for release in releases(read_pins().versions, "amd64").values():
        assert release.url.startswith("https://")
        assert release.checksum_url.startswith("https://")
        assert release.algorithm in ("sha256", "sha512")


def test_what_has_no_published_checksum_is_built_instead() -> None:
    found = releases(VERSIONS, "amd64")
    assert "kwok" not in found
    assert "init" not in found
